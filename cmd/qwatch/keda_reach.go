package main

import (
	"fmt"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/scaler/manifest"
)

// kedaReach warns where KEDA will hardly find the qwatch of the configuration.
func (c *cli) kedaReach(o manifest.Options, cfg *config.Config) {
	if o.Scaler == manifest.ScalerPrometheus {
		return // KEDA asks Prometheus
	}
	if o.Namespace == "" && o.Address == "" {
		c.warn("KEDA is told to find qwatch in the namespace default, at qwatch.default.svc: say where it runs with -n NAMESPACE, which the objects get too, or with --address HOST")
	}
	path, address := "server.grpc", cfg.Server.GRPC
	if o.Scaler == manifest.ScalerAPI {
		path, address = "server.listen", cfg.Server.Listen
	}
	if app.Loopback(address) {
		c.warn(fmt.Sprintf("%s: only programs of the same host reach %s, and KEDA is not one: listen at \":%s\", or have something there pass it on", cfg.At(path), address, portOf(address)))
	}
}
