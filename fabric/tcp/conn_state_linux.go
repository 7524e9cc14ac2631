package tcp

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/tcpflow"
)

// connState is what a peer is known by while a connection to it is made, for the first time or again,
// and whether what is sent over the connection arrives. It does no input or output.
type connState struct {
	session   session          // what this side proposes, or what the two peers have agreed on
	agreed    bool             // a connection with this session was made
	confirmed bool             // the peer has shown that it knows that
	addrs     []netip.AddrPort // of the peer, in the order in which they are tried
	nextAddr  int              // index in addrs
	refusals  int              // attempts in this round that hosts have refused
	path      netip.Addr       // the address of the peer that the last connection led to
	attempt   *handshake       // nil: none in progress
	retryAt   time.Time        // when the next round of attempts begins
	backoff   time.Duration    // delay before that round
	giveUpAt  time.Time        // when the peer is reported as lost; zero: there is a connection, and the peer answers

	lastErr error     // error of the last attempt, or of sending
	broken  error     // why the last connection ended
	since   time.Time // when it ended, or when the first one was tried

	mismatches  int          // checksums that did not match, since the last message or memory that arrived
	retransmits uint32       // this connection's part of Domain.stats.retransmits
	flow        tcpflow.Flow // whether what was sent arrives
	vain        int          // connections in a row over which nothing has arrived
	told        bool         // the peer knows that nothing that was sent before this connection has arrived
	unheard     time.Time    // when the peer has said that nothing that it sends arrives; zero: never, or much has arrived
	unreached   bool         // the peer was lost because nothing that was sent has arrived
}

// errUnheard is added to the reason why a peer is lost, if the peer has said that nothing that it
// sends arrives here. This side cannot find that out itself: what it sends arrives.
var errUnheard = errors.New("it had connected again because nothing that it sent arrived here: does the network between the " +
	"two drop long packets (MTU)?")

var errSilent = errors.New("nothing was acknowledged")

// longestPacket is the most that arrives in one packet.
const longestPacket = 64 << 10

// limit returns when the peer is lost at the latest, if its host accepts connections and its process
// does not answer. timeout is Transport.Timeout, here and below.
func (c *connState) limit(timeout time.Duration) time.Time {
	return c.since.Add(clientTimeoutFactor * timeout)
}

// stalled returns optionStalled if the peer is to be told that nothing that was sent arrives. After
// this side has ended the connection, the peer could not learn it any more: a reset has no reason,
// and then this process may have ended.
func (c *connState) stalled() options {
	if c.broken == errSilent || c.flow.Cause() != nil {
		return optionStalled
	}
	return 0
}

// noteStalls notes whether this side has told the peer (here), and the peer this side (there), that
// nothing that it sends arrives.
func (c *connState) noteStalls(here, there bool, now time.Time) {
	c.told, c.unheard = here, time.Time{}
	if there {
		c.unheard = now
	}
}

// isUnheard reports whether the peer has said that nothing that it sends arrives. That holds for two
// timeouts: within one, the peer says it again or ends the connection.
func (c *connState) isUnheard(now time.Time, timeout time.Duration) bool {
	return !c.unheard.IsZero() && now.Sub(c.unheard) < 2*timeout
}

// observe is Observe of the flow. What the peer has said is void when a long packet of it has
// arrived.
func (c *connState) observe(s *tcpflow.Sample, now time.Time, quiet time.Duration) (stalled time.Duration) {
	stalled = c.flow.Observe(s, now, quiet)
	if c.flow.Received() >= longestPacket {
		c.unheard = time.Time{}
	}
	return stalled
}

// mayTryAgain reports whether another connection is worth trying. After one that was made again for
// the same reason, and of which the peer knows, it is not while that one is new, and not shortly
// before the end.
func (c *connState) mayTryAgain(stalled time.Duration, now time.Time, timeout time.Duration) bool {
	return !c.flow.Again() || !c.told || c.flow.Age(now) >= max(probingTime, timeout/2) && stalled <= timeout*4/5
}

// refused reports whether err, of a connection attempt to addrs[i], says that the peer's process has
// ended: the host at the other end of the last connection refuses another one.
func (c *connState) refused(i int, err error) bool {
	return c.agreed && errors.Is(err, unix.ECONNREFUSED) && i < len(c.addrs) && c.addrs[i].Addr() == c.path
}

// countRefusal counts a connection attempt that failed because a host refused it.
func (c *connState) countRefusal(err error) {
	if errors.Is(err, unix.ECONNREFUSED) {
		c.refusals++
	}
}

// refusedEverywhere reports whether in this round every address of the peer has refused a
// connection. Then the peer's process has ended, since it listened when it published them. A refusal
// by some of them says nothing: another host may have the same address in a private network.
func (c *connState) refusedEverywhere() bool { return len(c.addrs) > 0 && c.refusals == len(c.addrs) }

// lostReason returns what this side knows about the end of the connection and the attempts to make
// it again. err is the error of the last attempt. A peer that has answered while nothing arrived is
// not said to be unreachable.
func (c *connState) lostReason(err error, now time.Time, timeout time.Duration) error {
	if c.broken == nil && c.refusedEverywhere() {
		return errors.New("it cannot be reached: its host refuses connections, so its process has ended")
	}
	if c.broken == nil {
		return fmt.Errorf("it cannot be reached within %v: %w", timeout, cmp.Or(err, error(unix.ETIMEDOUT)))
	}
	if errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("%w, and its host refuses another one", c.broken)
	}
	if err == nil || err == unix.ETIMEDOUT {
		switch stall := c.flow.Cause(); {
		case c.told && c.flow.Again() && stall != nil:
			err = fmt.Errorf("%w: %w", unix.ETIMEDOUT, stall)
		case c.isUnheard(now, timeout):
			err = unix.ETIMEDOUT
		default:
			err = fmt.Errorf("%w: its node is down or unreachable", unix.ETIMEDOUT)
		}
	}
	return fmt.Errorf("%w, and no other connection was made within %v: %w", c.broken, timeout, err)
}
