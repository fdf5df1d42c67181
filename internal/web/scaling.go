package web

import (
	"context"
	"net/http"
)

// Scaling is the answer to GET /api/v1/scaling/{account}/{queue}.
type Scaling struct {
	Value      int64   `json:"value"`
	Strategy   string  `json:"strategy"`
	Saturated  bool    `json:"saturated"` // it may be more
	AgeSeconds float64 `json:"ageSeconds"`
}

// A Scaler answers what a queue calls for. An error has the HTTP status that goes with it.
type Scaler func(ctx context.Context, account, queue, strategy string) (Scaling, *ScalingError)

// ScalingError is why there is no answer.
type ScalingError struct {
	Status int // HTTP
	Text   string
}

func (h *handler) mountScaling(mux *http.ServeMux) {
	if h.Scaler != nil {
		mux.Handle("/api/v1/scaling/{account}/{queue}", get(h.scaling))
	}
}

func (h *handler) scaling(w http.ResponseWriter, r *http.Request) {
	answer, err := h.Scaler(r.Context(), r.PathValue("account"), r.PathValue("queue"), r.URL.Query().Get("strategy"))
	if err != nil {
		writeError(w, err.Status, err.Text)
		return
	}
	writeJSON(w, http.StatusOK, answer)
}
