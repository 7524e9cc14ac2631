// Package perftest measures RDMA verbs in the way and with the names of perftest, the programs ib_send_lat, ib_write_bw
// and so on that everyone measures RDMA with. `ibrun bench verbs` runs both in turn and prints the figures side by side.
//
// Two processes measure, a server and a client. Both call [Run] with the same [Test]; they talk through whatever is
// passed to it, and the client's result is the figure:
//
//	test := perftest.Test{Op: "send_lat", Size: 8, Iterations: 1000, Settings: settings}
//	figure, err := perftest.Run(test, perftest.Client, conn) // and perftest.Server at the other end of conn
//
// # What is measured
//
//   - send_lat: a ping-pong of SENDs, write_lat one of WRITEs whose last byte the other side watches. The figure is half
//     the median of the turns.
//   - read_lat, atomic_lat: one READ or FETCH AND ADD after the other. The figure is the median.
//   - send_bw, write_bw, read_bw, atomic_bw: requests are posted one by one, with a doorbell for each, until the queue
//     holds as many as its depth, and completions are polled. The figure is all bytes by the time from the first post
//     to the last completion. MB are 10^6 bytes, those of perftest 2^20: a [Report] has ours.
//
// The loops are perftest's, step for step: when a receive is posted again, and which requests make a completion; only that
// ours step aside every few milliseconds, which spares them a signal of Go's runtime. So are depth, inline size and path
// MTU, because perftest prints what it has chosen for the device, and [Op.ParseReport] returns it as the [Settings] for
// ours. The clock of single turns is the processor's cycle counter in both.
package perftest
