//go:build linux

package rdma

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/waittest"
)

// activeSlave returns the network device that an end of a wire of bonds uses.
func (w *wire) activeSlave(end int) string {
	w.t.Helper()
	text, err := os.ReadFile("/sys/class/net/" + w.netdevs[end] + "/bonding/active_slave")
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// bothUse reports whether both ends use a cable.
func (w *wire) bothUse(cable string) bool {
	w.t.Helper()
	return w.activeSlave(0) == cable+"0" && w.activeSlave(1) == cable+"1"
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
	waittest.Until(t, "both ends use cable a", func() bool { return w.bothUse("a") })
	p := openPeersOn(t, sets)
	p.exchange(20)
	for _, failing := range []string{"a", "b", "a"} {
		other := map[string]string{"a": "b", "b": "a"}[failing]
		p.sendDuring(func() error { return tryIP("link set " + failing + "1 down") })
		p.sendUntil("both ends use cable "+other, func() bool { return w.bothUse(other) })
		p.exchange(1)
		p.during(func() error { return tryIP("link set " + failing + "1 up") })
	}
	for _, ends := range [][]string{{"a1", "b1"}, {"bond0"}} {
		before := p.d[0].eps[1].conn.Epoch
		p.sendDuring(func() error {
			for _, e := range ends {
				if err := tryIP("link set " + e + " down"); err != nil {
					return err
				}
			}
			return nil
		})
		p.until("the end of the connection", func() bool { return p.d[0].eps[1].conn.Epoch != before })
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
