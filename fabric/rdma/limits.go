package rdma

import (
	"errors"
	"fmt"
	"os"
)

// HeaderBytes is the size of the header that the transport puts before each message.
const HeaderBytes = headerBytes

// Limits are the settings in force in domains that a transport opens on this machine.
type Limits struct {
	// Settings are the values in force. Inline is what the device supports, and Piece fits its packets.
	Settings Settings
	// Sources names the source of each field of Settings that is a number: the field itself, an environment variable, a device,
	// or the default.
	Sources map[string]string
}

// Limits opens the devices, queries them and closes them. If no device can be used, it returns an error with the reason and the
// settings without what devices decide: Piece may be 0, and Inline is what a device would be asked for.
func (t *Transport) Limits() (Limits, error) {
	set, err := t.Settings.Complete()
	if err != nil {
		return Limits{}, err
	}
	l := Limits{set, t.Settings.sources(os.Getenv)}
	if set.Eager == set.Slot-headerBytes {
		l.Sources["Eager"] = "what fits a slot"
	}
	if set.Piece == 0 {
		l.Sources["Piece"] = "packets of the device"
	}
	ts, err := t.PerSubnet()
	if err != nil {
		return l, err
	}
	if len(set.Devices) == 0 {
		l.Settings.Devices = ts[0].Settings.Devices
	}
	for i, name := range l.Settings.Devices {
		r, err := t.openRail(i, name, blockSlots)
		if err == nil {
			err = errors.Join(l.queryDevice(r, set), r.dev.Close())
		}
		if err != nil {
			return l, fmt.Errorf("fabric/rdma: %w", err)
		}
	}
	return l, nil
}

// queryDevice fills in what the device decides. Only the first rail is queried, because it carries the messages.
func (l *Limits) queryDevice(r *rail, set Settings) error {
	if r.index > 0 {
		return nil
	}
	if set.Piece == 0 {
		l.Settings.Piece, l.Sources["Piece"] = r.piece, "packets of device "+r.dev.Name()
	}
	q, err := r.newQueuePair(0, set.Inline)
	if err != nil {
		return err
	}
	if q.inline != set.Inline {
		l.Settings.Inline, l.Sources["Inline"] = q.inline, "device "+r.dev.Name()
	}
	return q.qp.Close()
}

// sources returns the source of each number that complete would return.
func (s Settings) sources(env environment) map[string]string {
	from := map[string]string{}
	for _, n := range s.ints() {
		field := n.FieldName()
		switch {
		case *n.value != 0:
			from[field] = "Settings." + field
		case env(n.Variable) != "":
			from[field] = n.Variable
		default:
			from[field] = "default"
		}
	}
	return from
}
