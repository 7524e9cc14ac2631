// Package perftest measures RDMA verbs like perftest, and with its names: perftest is the set of programs ib_send_lat,
// ib_write_bw and so on with which RDMA is usually measured. `ibrun bench verbs` runs both alternately and prints the figures
// side by side.
//
// Two processes measure, a server and a client. Both call [Run] with the same [Test]. They communicate over the connection that
// is passed to Run. The figure of the client is the result:
//
//	test := perftest.Test{Op: "send_lat", Size: 8, Iterations: 1000, Settings: settings}
//	figure, err := perftest.Run(test, perftest.Client, conn) // and perftest.Server at the other end of conn
//
// # Measurements
//
//   - send_lat is a ping-pong of SENDs. write_lat is a ping-pong of WRITEs; the other side polls the last byte. The figure is
//     half the median of the round trips.
//   - read_lat and atomic_lat are one READ or FETCH AND ADD after the other. The figure is the median.
//   - send_bw, write_bw, read_bw and atomic_bw post requests one by one, with a doorbell for each, until the queue is full, and
//     poll completions. The figure is the number of all bytes divided by the time from the first post to the last completion.
//     MB are 10^6 bytes here and 2^20 bytes in perftest; a [Report] has 10^6.
//
// The loops are those of perftest, step for step: when a receive is posted again, and which requests have a completion. The
// only difference is that ours yield every few milliseconds, which avoids a signal of Go's runtime. Depth, inline size and path
// MTU are also the same, because perftest prints what it has chosen for the device, and [Op.ParseReport] returns it as the
// [Settings] for ours. Both measure single round trips with the processor's cycle counter.
package perftest
