// Package prom serves the pages of package perf, and the counters of the node's RDMA ports, as metrics for Prometheus:
//
//	node := &prom.Node{Job: "j1", Name: "n0", Ranks: ranks, Root: os.DirFS("/")}
//	http.Handle("/metrics", node.Handler(logger))
//
// Ranks is called at each scrape. It reads the pages while the ranks run: a scrape costs the ranks only cache misses. When a rank
// has died or its page has become unreadable, its last values stay in the sums, so that no counter decreases.
//
// By default a node has one set of series: the sums over its ranks. With the query ?ranks=each every rank has series of its
// own, with the label rank. The values of all other labels are from closed sets, whatever the job does.
//
// Latencies are histograms. In every format they have the classic buckets, whose bounds are powers of two nanoseconds. Clients
// that request protobuf, as Prometheus does when native histograms are enabled, also get native buckets in the same metric,
// 2^[NativeSchema] for each factor of two.
//
// docs/metrics.md lists the metrics.
package prom
