package rdma

// Takeover moves peers from a domain to another transport. It is for a user of the domain that has such
// a transport, as package auto has. It lists the peers that the domain cannot reach (attempt.go), and
// those that it was connected to and cannot continue with (handover.go). Package auto describes the
// protocol between the two processes.
//
// The method Takeover of a domain returns it. Its methods are called like those of [fabric.Domain]. A
// peer is named by its number.
type Takeover struct {
	awaited bool        // there may be another transport, see Await
	leavers []*endpoint // are handed over to it, from leave to Abandon
	// lost says why the device is lost; nil if it is not. Then no peer is connected any more. Those that
	// were connected are down, or are handed over.
	lost error
	cm   *connManager
}

// Await says that there may be another transport. From then on, peers wait for it when the device is lost.
func (t *Takeover) Await() { t.awaited = true }

// FullPoll makes the next Poll do all work, also the work that Polls do only now and then.
func (t *Takeover) FullPoll() { t.cm.clock.FastPolls = 0 }
