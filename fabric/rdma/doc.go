// Package rdma connects peers over RDMA: InfiniBand, RoCE and Soft-RoCE. It uses reliable connections (RC) of package verbs.
//
//	t := &rdma.Transport{Key: secret}
//	d, err := t.Open(ctx, &fabric.Config{Self: 0, Size: 2})
//	ep, err := d.Connect(1, addrOfPeer1)
//
// # Connections
//
// Two peers are connected when one of them first sends, reads or writes. The protocol is that of the InfiniBand communication
// manager, over UD datagrams: one side sends a connection request (REQ) with its queue pairs, the other answers with a reply
// (REP) with its own. A REQ is sent again until it is answered. If both sides send a REQ, that of the peer with the lower
// number counts. The first message over the connection confirms it, as the RTU (ready to use) does.
//
// A datagram carries an HMAC-SHA-256 with the job's key over its whole content, which includes the numbers and the incarnations
// of both peers. So datagrams of an earlier run, of another job or of an attacker have no effect. Traffic over the connection
// is neither encrypted nor authenticated: the network is trusted not to change packets.
//
// A connection that breaks is made again under the next epoch. Each side reports which message it expects next, and the other
// side sends the messages again that were not acknowledged. Reads and writes are repeated, which has no side effects.
//
// Only Poll answers a REQ, and a program may compute for any time between two Polls. So a peer that does not answer is asked by
// another datagram, a probe, whether its process exists. Each process has a goroutine that answers probes.
//
// # Messages
//
// Send copies a message into a bounce buffer, a slot of registered memory. The device sends it from there into a slot of the
// receiver, and Poll returns a slice of that slot, which is valid until the next Poll. All connections share one queue of
// receive slots. A peer may send as many messages as it was granted credits for; every message carries credits in its header,
// and so do special messages without data. Each connection begins with one slot for data messages and one for control messages
// (credits and disconnects). A peer that uses all its credits is granted more, limited by a window and by the size of the pool.
// So a receive is always posted when a message arrives, and there are no RNR (receiver not ready) NAKs. Only when thousands of
// peers are connected, they share the slots.
//
// # Reads and writes
//
// Read and Write are RDMA READ and WRITE between registered memory of the callers. They are split into pieces of limited size.
// If there are several rails or paths and the transfer is long enough, it is striped over all of them. Rail i of one peer is
// connected to rail i of the other. A connection is made again without a rail or path that fails.
//
// Data in parts is packed into the slot of a message. A Read to parts whose blocks are long names them in the scatter/gather
// lists of its pieces, so that the device stores each byte where it belongs.
//
// # Lost peers
//
// A peer that closes sends a disconnect request (DREQ), also to peers that it knows and is not connected to. Every other peer is
// lost once it has left a request unanswered for Settings.Heartbeat, 15 seconds by default. That time is divided into keepalive
// intervals of half a second or less. Each connected peer is visited once in an interval, and the visits are spread over it.
//
// While requests are in flight, their completions are signs of life: the peer's device or kernel answers them, so a peer that
// computes or is stopped is not considered lost. If they are many, the connection is made again after two thirds of the time,
// with fewer bytes in flight. If a connection was idle for a quarter to a half of Settings.Heartbeat, a WRITE of no bytes is
// sent as a keepalive. So a lost peer is found within two times Settings.Heartbeat. If another transport is to take over, the
// peer has one more Settings.Heartbeat to answer there. The device reports a lost peer earlier if its own retransmissions end
// before.
//
// A network may pass short packets and lose long ones, because of its MTU. Then connections break and are made again. They count
// against the heartbeat until a request as long as the lost one has been acknowledged (path_mtu.go).
//
// While a connection is being made, for the first time or again, one probe is sent in each interval. A process that computes
// answers it; one that is stopped for as long as the heartbeat, by a signal or a debugger, does not, and is considered lost.
//
// # Subnets
//
// A domain uses devices of one subnet. A process on a node with several, such as InfiniBand and Ethernet, opens a domain in each
// (Transport.PerSubnet). Its user compares the addresses of two processes, by the method Reach, and chooses the domain that both
// use.
//
// # Events of devices
//
// Poll also handles what the devices report. A port that goes down and up again within the heartbeat breaks connections, which
// are made again. If it stays down, the peers are lost, and the error names the port. When LID, GID or partitions change,
// connections are made again and peers are sent the new address. If the device of the first rail is removed or has failed
// for good, all peers that were connected are lost, and the error names it. If the user of the domain has another transport
// (package auto), it takes over instead of both losses: the domain tells which messages have arrived, and returns those that the
// peer has not received (handover.go). Poll itself does not fail. Connections do without any other rail whose device is lost or
// whose link is down.
//
// A device whose port is down at the start is not used, also if the port comes up later: Open returns why, and package auto takes
// TCP and reports it once.
//
// # Files
//
//	connections:    internal/cm (addresses, datagrams and the state machine, without input or output), internal/datagrams
//	                (their input and output), conn_manager.go (connManager: datagrams, and the peers to connect to), peers.go
//	                (what concerns many connections), renew.go (when the network changes addresses), connect.go,
//	                connect_timers.go (when a REQ or a probe is sent),
//	                reconnect.go (broken connections and retransmission), series.go (attempts that fail),
//	                refusal.go (refused calls), path_mtu.go (lost large packets), left_out.go (rails and paths
//	                that connections do without), internal/closing (what is to be closed, when and why), teardown.go (the
//	                last completions), disconnect.go, close.go
//	lost peers:     internal/liveness (how long a peer may be silent, and attempts may fail; intervals, timers),
//	                keepalive.go (connected), silence.go (being connected)
//	messages:       internal/messages (headers, credits, bounce buffers, posted receives, queued events, messages to this
//	                process itself), send.go, send_from.go (data in parts), receive.go, control_message.go
//	flow control:   rnr.go (receiver not ready)
//	transfers:      internal/transfer (registered memory, keys, lists of transfers, bytes in flight), transfer.go, lanes.go
//	                (rails and paths), with_rail.go (transfers restricted to one rail), scatter.go
//	posting:        internal/posting (queue pairs with their requests in flight, which of them gets a piece, doorbells)
//	polling:        poll.go, completions.go (completions: what has arrived, what was carried out), internal/sleep (which
//	                queues report completions, what wakes), sleep.go
//	takeover:       takeover.go (Takeover), attempt.go (peers that were never connected), handover.go (peers that were)
//	devices:        internal/devices (which of them are used, what they grant), reach.go (which domains of two processes
//	                reach each other), rail.go, device_error.go, device_events.go, device_lost.go
//	configuration:  transport.go, settings.go, limits.go, attributes.go (what explain shows), open.go
package rdma
