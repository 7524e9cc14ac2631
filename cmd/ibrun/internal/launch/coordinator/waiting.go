package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
)

// noticeAfter returns how long this ibrun waits for other nodes before it prints for which, and why.
func noticeAfter(set *JoinSettings) time.Duration { return min(5*time.Second, set.Timeout/2) }

// maxRefusalsShown bounds the lines about refused connections: strangers may cause them.
const maxRefusalsShown = 16

// refusals are the refused connections that the coordinator has shown: one line for each host and
// reason.
type refusals map[string]bool

// show prints a refused connection immediately, because its user must change something. The
// coordinator goes on waiting: a stranger must not end the job.
func (r refusals) show(s console.Streams, refused control.Refusal) {
	key := hostOf(refused.Addr) + " " + refused.Err.Error()
	if r[key] || len(r) >= maxRefusalsShown {
		return
	}
	r[key] = true
	s.Warn("a connection was refused", console.Attrs{Address: refused.Addr.String(), Error: refused.Err.Error(),
		Text: fmt.Sprintf("%v; waiting for the right one", refused)})
}

// listen starts to listen for the other nodes. The name of the address may not be known yet, or still be that of an earlier
// machine, for instance of a pod that has just started: then it tries again until the time for joining is over.
func listen(ctx context.Context, security control.Security, set *JoinSettings, s console.Streams) (*control.Listener, error) {
	var backoff control.Backoff
	for shown := false; ; shown = true {
		addr, err := listenAddress(ctx, set.Rendezvous)
		var l *control.Listener
		if err == nil {
			l, err = control.Listen(addr, security, set.Heartbeat)
		}
		switch {
		case err == nil:
			return l, nil
		case !mayResolveLater(set.Rendezvous, err):
			return nil, fmt.Errorf("%w (--rendezvous names an address of node 0)", err)
		case !shown && ctx.Err() == nil:
			s.Warn("the address of node 0 cannot be used yet", console.Attrs{Address: set.Rendezvous, Error: err.Error(),
				LimitSeconds: set.Timeout.Seconds(), Text: fmt.Sprintf("%v; trying again for %v (--join-timeout; "+
					"--rendezvous names an address of node 0)", err, set.Timeout)})
		}
		if !backoff.Wait(ctx) {
			return nil, fmt.Errorf("%w, %w (--rendezvous names an address of node 0)", err, context.Cause(ctx))
		}
	}
}

// listenAddress returns the address at which the coordinator listens. A name is looked up here
// only: when it is looked up again, it may mean something else.
//
// Debian gives the name of a host a loopback address in its own /etc/hosts, at which no other host
// reaches it. If the rendezvous has a name with only such addresses, the coordinator listens at all
// addresses: the secret decides who may join. An address of the user, or localhost, is meant.
func listenAddress(ctx context.Context, rendezvous string) (string, error) {
	host, port, err := net.SplitHostPort(rendezvous)
	if _, errParse := netip.ParseAddr(host); err != nil || errParse == nil || host == "" ||
		strings.Contains(strings.ToLower(host), "localhost") {
		return rendezvous, nil // control.Listen returns the error of an address without a port
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", fmt.Errorf("listen for the other nodes: %w", err)
	}
	found := ""
	for _, a := range addrs {
		switch a = a.Unmap(); {
		case a.IsLoopback():
		case a.Is4(): // net.Listen prefers IPv4 too; the other nodes try all addresses of the name
			return net.JoinHostPort(a.String(), port), nil
		case found == "":
			found = a.String()
		}
	}
	return net.JoinHostPort(found, port), nil
}

// mayResolveLater reports whether an address cannot be listened at because of what its name means now.
func mayResolveLater(addr string, err error) bool {
	host, _, errSplit := net.SplitHostPort(addr)
	_, errParse := netip.ParseAddr(host)
	if errSplit != nil || errParse == nil {
		return false
	}
	var dns *net.DNSError
	return errors.As(err, &dns) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// noticeMissing prints for which nodes the coordinator still waits, and how to start them.
func (cl *Cluster) noticeMissing(set *JoinSettings, s console.Streams) {
	nodes, text := cl.missing()
	s.Warn("still waiting for other nodes", console.Attrs{PeerNodes: nodes, Address: set.Rendezvous,
		LimitSeconds: set.Timeout.Seconds(), Text: fmt.Sprintf("still waiting for %s: start ibrun there with --rendezvous %s "+
			"--node %d/%d, the same --secret-file and the same programs; the wait ends after %v (--join-timeout)", text,
			set.Rendezvous, nodes[0], len(cl.workers), set.Timeout)})
}

// noticeCoordinator returns what is to be called after each failed attempt to connect to the
// coordinator: it prints the reason once.
func noticeCoordinator(set *JoinSettings, s console.Streams) func(error) {
	began, shown := time.Now(), false
	return func(why error) {
		if shown || time.Since(began) < noticeAfter(set) {
			return
		}
		shown = true
		s.Warn("still waiting for node 0", console.Attrs{PeerNode: new(0), Address: set.Rendezvous, Error: why.Error(),
			LimitSeconds: set.Timeout.Seconds(), Text: fmt.Sprintf("still waiting for node 0 at %s (%v): start ibrun there with "+
				"--rendezvous %[1]s --node 0/%[3]d; the wait ends after %[4]v (--join-timeout)", set.Rendezvous, why, set.Nodes,
				set.Timeout)})
	}
}
