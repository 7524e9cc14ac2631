// Package prom shows the pages of package perf, and the RDMA ports of the node beside them, to Prometheus:
//
//	node := &prom.Node{Job: "j1", Name: "n0", Ranks: ranks, Root: os.DirFS("/")}
//	http.Handle("/metrics", node.Handler(logger))
//
// Ranks is asked at each scrape, and reads the pages while the ranks go on: a scrape costs them nothing but cache lines.
// What a rank's page said last stays in the sums when the rank has died or its page cannot be read any more, so that no
// counter goes back.
//
// By default a node has one set of series, the sum of its ranks. With the query ?ranks=each every rank has series of its
// own, with the label rank. Labels come from closed sets otherwise, whatever the job does.
//
// Latencies are histograms. In every format they have the classic buckets, whose bounds are powers of two nanoseconds; who
// asks for protobuf, as Prometheus does with native histograms switched on, gets native buckets in the same metric,
// [NativeSchema] of them to a factor of two.
//
// docs/metrics.md lists what there is.
package prom
