package web

import (
	"context"
	"fmt"
	"net/http"

	"github.com/qwatch/qwatch/internal/cluster"
)

// Scaling is the answer to GET /api/v1/scaling/{account}/{queue}.
type Scaling struct {
	Value      int64   `json:"value"`
	Strategy   string  `json:"strategy"`
	Saturated  bool    `json:"saturated"` // it may be more
	AgeSeconds float64 `json:"ageSeconds"`
	Backlog    int64   `json:"backlog,omitempty"` // the messages that replicas, where Value are those, are for
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
	account, queue := r.PathValue("account"), r.PathValue("queue")
	if _, self := h.Router.Owner(account, queue); !self && cluster.FromPeer(r) {
		writeError(w, http.StatusMisdirectedRequest, "this replica does not watch queue "+account+"/"+queue)
		return
	}
	for k := range r.URL.Query() {
		if k != "strategy" {
			writeError(w, http.StatusBadRequest, fmt.Sprintf("there is no query parameter %.64q: it is strategy", k))
			return
		}
	}
	answer, err := h.Scaler(r.Context(), account, queue, r.URL.Query().Get("strategy"))
	if err != nil {
		writeError(w, err.Status, err.Text)
		return
	}
	writeJSON(w, http.StatusOK, answer)
}
