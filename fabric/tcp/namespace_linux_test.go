package tcp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/needtest"
	"github.com/ibrun/ibrun/internal/threadtest"
)

// run runs a command. Its error contains the command's output.
func run(command string) error {
	args := strings.Fields(command)
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, out)
	}
	return nil
}

// makeNamespaces makes two network namespaces that are joined by a link. The interfaces have the namespaces' names. Each has an
// IPv4, an IPv6 and a link-local address.
func makeNamespaces(t *testing.T) [2]string {
	t.Helper()
	needtest.Networks(t)
	id := strings.ToLower(rand.Text()[:6])
	names := [2]string{"ibt" + id + "a", "ibt" + id + "b"}
	for i, name := range names {
		if err := run("ip netns add " + name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := run("ip netns del " + name); err != nil {
				t.Error(err)
			}
		})
		if i == 1 {
			if err := run("ip link add " + names[0] + " netns " + names[0] + " type veth peer name " + names[1] +
				" netns " + names[1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, name := range names {
		for _, c := range []string{
			fmt.Sprintf("addr add 10.77.0.%d/24 dev %s", i+1, name),
			fmt.Sprintf("addr add fd77::%d/64 dev %s nodad", i+1, name),
			fmt.Sprintf("link set %s addrgenmode none", name),
			fmt.Sprintf("addr add fe80::77:%d/64 dev %s nodad", i+1, name),
			fmt.Sprintf("link set %s up", name),
		} {
			if err := run("ip -n " + name + " " + c); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range names { // the kernel reports the state of the other end a little later
		for {
			out, err := exec.Command("ip", "-n", name, "link", "show", "dev", name).CombinedOutput()
			if err != nil || t.Context().Err() != nil {
				t.Fatalf("%s: %v: %s", name, err, out)
			}
			if strings.Contains(string(out), "state UP") {
				break
			}
		}
	}
	return names
}

// inNamespace runs f in a namespace, on a thread that ends with it.
func inNamespace(name string, f func() error) error {
	err := errors.New("the goroutine has ended without a result")
	threadtest.Run(func() {
		fd, openErr := unix.Open("/run/netns/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if openErr != nil {
			err = openErr
			return
		}
		if setErr := errors.Join(unix.Setns(fd, unix.CLONE_NEWNET), unix.Close(fd)); setErr != nil {
			err = setErr
			return
		}
		err = f()
	})
	return err
}

// betweenNamespaces opens a peer in each namespace, lets them exchange a message, and then calls f for each.
func betweenNamespaces(t *testing.T, names [2]string, tr *Transport, f func(self int, d fabric.Domain, e fabric.Endpoint) error) {
	t.Helper()
	addrs := [2]chan []byte{make(chan []byte, 1), make(chan []byte, 1)}
	errs := make(chan error, 2)
	for self := range 2 {
		go func() {
			errs <- inNamespace(names[self], func() error {
				d, err := tr.Open(t.Context(), &fabric.Config{Self: self, Size: 2})
				if err != nil {
					addrs[self] <- nil
					return err
				}
				addrs[self] <- d.Addr()
				e, err := d.Connect(1-self, <-addrs[1-self])
				if err == nil {
					err = exchangeHello(d, e)
				}
				if err == nil {
					err = f(self, d, e)
				}
				return errors.Join(err, d.Close())
			})
		}()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Fatal(err)
	}
}

// nextEvent waits for the next event.
func nextEvent(d fabric.Domain) (fabric.Event, error) {
	var evs [1]fabric.Event
	for {
		if n, err := d.Poll(evs[:]); n == 1 || err != nil {
			return evs[0], err
		}
		fd, ready, err := d.Arm()
		if err != nil {
			return fabric.Event{}, err
		}
		if ready {
			continue
		}
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); err != nil && err != unix.EINTR {
			return fabric.Event{}, err
		}
	}
}

// exchangeHello sends a message and receives one.
func exchangeHello(d fabric.Domain, e fabric.Endpoint) error {
	for {
		err := e.Send([]byte("hello"), nil)
		if err == nil {
			break
		}
		if err != fabric.ErrAgain {
			return err
		}
		if _, err := d.Poll(nil); err != nil {
			return err
		}
	}
	ev, err := nextEvent(d)
	if err == nil && string(ev.Data) != "hello" {
		err = fmt.Errorf("%+v instead of a message", ev)
	}
	return err
}

// TestNodes: peers on two nodes connect by IPv4, by IPv6, and by link-local addresses if the rules choose these.
func TestNodes(t *testing.T) {
	t.Parallel()
	names := makeNamespaces(t)
	for _, rules := range [][]string{nil, {"10.0.0.0/8"}, {"fd00::/8"}, {"fe80::/10"}} {
		tr := patient()
		tr.Interfaces = rules
		betweenNamespaces(t, names, tr, func(int, fabric.Domain, fabric.Endpoint) error { return nil })
	}
}

// TestNodeCutOff: if a node is cut off, a peer that waits for it asleep and a peer that sends to it both find that out. It is cut
// off when both have received the other's messages.
func TestNodeCutOff(t *testing.T) {
	t.Parallel()
	names := makeNamespaces(t)
	betweenNamespaces(t, names, patient(), func(self int, d fabric.Domain, e fabric.Endpoint) error {
		if self == 0 {
			ev, err := nextEvent(d)
			if err == nil && string(ev.Data) != "cut off" {
				err = fmt.Errorf("%+v instead of a message", ev)
			}
			if err == nil {
				err = shortenTimeout(d.(*Domain))
			}
			if err == nil {
				err = run("ip -n " + names[0] + " link set " + names[0] + " down")
			}
			if err != nil {
				return err
			}
		} else {
			if err := errors.Join(shortenTimeout(d.(*Domain)), e.Send([]byte("cut off"), nil)); err != nil {
				return err
			}
			err := e.Send([]byte("this arrives only if it was fast"), nil)
			if err != nil && err != fabric.ErrAgain && !errors.Is(err, fabric.ErrPeerDown) {
				return err
			}
		}
		for {
			ev, err := nextEvent(d)
			switch {
			case err != nil:
				return err
			case ev.Kind == fabric.Message:
			case ev.Kind == fabric.PeerDown && errors.Is(ev.Err, fabric.ErrPeerDown) && !errors.Is(ev.Err, fabric.ErrPeerClosed):
				t.Logf("peer %d: %v", self, ev.Err)
				return nil
			default:
				return fmt.Errorf("%+v", ev)
			}
		}
	})
}

// TestResent: if every third packet to a peer is lost, the retransmissions are counted.
func TestResent(t *testing.T) {
	t.Parallel()
	needtest.Program(t, "nft", "nftables")
	const messages = 300
	names := makeNamespaces(t)
	// The timeout is long: no peer is lost, however often the same packet is dropped.
	tr := patient()
	tr.Timeout = time.Hour
	betweenNamespaces(t, names, tr, func(self int, d fabric.Domain, e fabric.Endpoint) error {
		if self == 0 {
			err := run("ip netns exec " + names[0] + " nft add table inet loss; add chain inet loss in { type filter hook input " +
				"priority 0; }; add rule inet loss in numgen inc mod 3 0 drop")
			if err == nil {
				err = exchangeHello(d, e) // now there is loss
			}
			for i := 0; i < messages && err == nil; i++ {
				_, err = nextEvent(d)
			}
			return errors.Join(err, exchangeHello(d, e))
		}
		err := exchangeHello(d, e)
		for i := 0; i < messages && err == nil; {
			if err = e.Send(make([]byte, 1<<10), nil); err == nil {
				i++
			} else if err == fabric.ErrAgain {
				_, err = d.Poll(nil)
			}
		}
		if err == nil {
			err = exchangeHello(d, e)
		}
		for err == nil && d.(fabric.RetransmitCounter).Retransmits() == 0 { // for ever, if retransmissions are not counted
			_, err = d.Poll(nil)
		}
		return err
	})
}
