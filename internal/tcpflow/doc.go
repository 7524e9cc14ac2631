// Package tcpflow finds out whether what a process sends to a peer over TCP arrives.
//
// That the peer's host answers does not mean that. If a switch has a smaller MTU than the hosts at both ends, it passes short
// packets and drops long ones: a connection is made, heartbeats arrive, and the kernel retransmits the first long packet again
// and again. So the measure is the number of bytes that the peer's kernel has acknowledged, and not the time of its last answer.
//
//	flow.Begin(sample, now) // a connection was made, or made again
//	stalled := flow.Observe(sample, now, timeout/5) // regularly
//	if stalled >= timeout && flow.Again() {
//		err = flow.Cause()
//	}
//
// A connection that stalls should be made again once before the peer is lost: a device between the two may only have forgotten
// it, and some kernels drop what they have no room for while a process does not read. A new connection has room. Its handshake
// shows that the process answers; if nothing long arrives over it either, long packets are lost. The time counts over all these
// connections, so to make another one is not progress.
//
// With the sysctl net.ipv4.tcp_mtu_probing the kernel tries shorter packets when it finds that long ones are lost, which takes it
// three to seven seconds. Then bytes arrive, and the flow does not stall any more.
package tcpflow
