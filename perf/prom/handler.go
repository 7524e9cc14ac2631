package prom

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// inFlight is how many scrapes are answered at the same time; others are told to come back.
const inFlight = 4

// Handler answers scrapes: with the sum of the ranks, and with each rank's own if the query has ranks=each. What goes wrong is
// told to log.
func (n *Node) Handler(log promhttp.Logger) http.Handler {
	handler := func(each bool) http.Handler {
		r := prometheus.NewRegistry()
		r.MustRegister(n.Collector(each))
		return promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorLog: log, ErrorHandling: promhttp.HTTPErrorOnError,
			EnableOpenMetrics: true, MaxRequestsInFlight: inFlight})
	}
	sum, each := handler(false), handler(true)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query().Get("ranks"); q {
		case "":
			sum.ServeHTTP(w, r)
		case "each":
			each.ServeHTTP(w, r)
		default:
			http.Error(w, "ranks="+q+" is not known; there is ranks=each", http.StatusBadRequest)
		}
	})
}
