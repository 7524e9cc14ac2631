package prom

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxScrapes is the largest number of concurrent scrapes; further ones get status 503.
const maxScrapes = 4

// Handler serves scrapes: the sums over the ranks, or the series of each rank if the query has ranks=each. It reports errors to
// log.
func (n *Node) Handler(log promhttp.Logger) http.Handler {
	handler := func(each bool) http.Handler {
		r := prometheus.NewRegistry()
		r.MustRegister(n.Collector(each))
		return promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorLog: log, ErrorHandling: promhttp.HTTPErrorOnError,
			EnableOpenMetrics: true, MaxRequestsInFlight: maxScrapes})
	}
	sum, each := handler(false), handler(true)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query().Get("ranks"); q {
		case "":
			sum.ServeHTTP(w, r)
		case "each":
			each.ServeHTTP(w, r)
		default:
			http.Error(w, "ranks="+q+" is unknown; want ranks=each", http.StatusBadRequest)
		}
	})
}
