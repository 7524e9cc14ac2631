package rdma

import (
	"errors"
	"fmt"
	"os"
)

// HeaderBytes is what the transport puts before a message.
const HeaderBytes = headerBytes

// Limits are what holds for the domains that a transport opens on this machine.
type Limits struct {
	// Settings are those in force. Inline is what the device grants, and Piece what fits its packets.
	Settings Settings
	// Sources says of each field of Settings that is a number where it comes from: the field itself, an environment variable,
	// a device, or the default.
	Sources map[string]string
}

// Limits finds them out: it opens the devices and closes them. Where none can be used the error says why, and what the devices
// would say is missing: Piece may be 0, and Inline is what they would be asked for.
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
	if l.Settings.Devices, err = choose(set.Devices, t.Near); err != nil {
		return l, err
	}
	for i, name := range l.Settings.Devices {
		r, err := t.openRail(i, name, blockSlots)
		if err == nil {
			err = errors.Join(l.ask(r, set), r.dev.Close())
		}
		if err != nil {
			return l, fmt.Errorf("fabric/rdma: %w", err)
		}
	}
	return l, nil
}

// ask asks a device for what it decides, given what is set. The first is the one that carries messages.
func (l *Limits) ask(r *rail, set Settings) error {
	if r.index > 0 {
		return nil
	}
	if set.Piece == 0 {
		l.Settings.Piece, l.Sources["Piece"] = r.piece, "packets of device "+r.dev.Name()
	}
	q, err := r.newQueue(0, set.Inline)
	if err != nil {
		return err
	}
	if q.inline != set.Inline {
		l.Settings.Inline, l.Sources["Inline"] = q.inline, "device "+r.dev.Name()
	}
	return q.qp.Close()
}

// sources says where the numbers come from that complete would set.
func (s Settings) sources(env environment) map[string]string {
	from := map[string]string{}
	for _, n := range s.numbers() {
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
