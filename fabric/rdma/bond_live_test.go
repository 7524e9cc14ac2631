//go:build linux

package rdma

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// activeSlave waits until an end of a wire of bonds uses a network device.
func (w *wire) activeSlave(end int, want string) error {
	var name string
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile("/sys/class/net/" + w.netdevs[end] + "/bonding/active_slave")
		if err != nil {
			return err
		}
		if name = strings.TrimSpace(string(text)); name == want {
			return nil
		}
	}
	return fmt.Errorf("%s uses %q, want %q", w.netdevs[end], name, want)
}

// bothUse waits until both ends use a cable, or none.
func (w *wire) bothUse(cable string) error {
	if cable == "" {
		return errors.Join(w.activeSlave(0, ""), w.activeSlave(1, ""))
	}
	return errors.Join(w.activeSlave(0, cable+"0"), w.activeSlave(1, cable+"1"))
}

// TestLiveBond: the devices are above bonds. When a cable fails, the other one is used. When both fail for longer than the device
// sends packets again, the connection is made again. No message is lost or delivered twice.
func TestLiveBond(t *testing.T) {
	w := newBonds(t)
	w.address(0, "10.98.0.1/24")
	w.address(1, "10.98.0.2/24")
	w.addDevices()
	sets := w.settings()
	for i := range sets {
		sets[i].Retries, sets[i].Heartbeat = 2, time.Minute // the devices give up after some tenths of a second
	}
	if err := w.bothUse("a"); err != nil {
		t.Fatal(err)
	}
	p := openPeersOn(t, sets)
	p.exchange(20)
	for _, failing := range []string{"a", "b", "a"} {
		other := map[string]string{"a": "b", "b": "a"}[failing]
		p.during(func() error {
			return errors.Join(tryIP("link set "+failing+"1 down"), w.bothUse(other))
		})
		p.during(func() error { return tryIP("link set " + failing + "1 up") })
	}
	for _, ends := range [][]string{{"a1", "b1"}, {"bond0"}} {
		before := p.d[0].eps[1].conn.epoch
		p.sendDuring(func() error {
			for _, e := range ends {
				if err := tryIP("link set " + e + " down"); err != nil {
					return err
				}
			}
			return nil
		})
		p.until("the end of the connection", func() bool { return p.d[0].eps[1].conn.epoch != before })
		p.sendDuring(func() error {
			for _, e := range ends {
				if err := tryIP("link set " + e + " up"); err != nil {
					return err
				}
			}
			return nil
		})
		p.exchange(50)
	}
}
