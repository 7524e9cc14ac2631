package rdma

import (
	"cmp"
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
	// Attributes are the attributes of connections over the first device: the address of its port, and what administrators set.
	Attributes []Attribute
}

// Limits opens the devices, queries them and closes them. If no device can be used, it returns an error with the reason and the
// settings without what devices decide: Piece may be 0, and Inline is what a device would be asked for.
func (t *Transport) Limits() (Limits, error) {
	set, err := t.Settings.Complete()
	if err != nil {
		return Limits{}, err
	}
	l := Limits{set, t.Settings.sources(os.Getenv), t.Settings.inForce(&set, os.Getenv)}
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
	var first error
	for _, one := range ts {
		for one != nil {
			err := l.open(one, &set, one.Settings.Devices)
			if err == nil {
				return l, nil
			}
			first = cmp.Or(first, err) // of the device that is used if it can be
			one = one.without(err)
		}
	}
	return l, first
}

// open opens the devices of a subnet, and fills in what they decide.
func (l *Limits) open(t *Transport, set *Settings, devices []string) error {
	for i, name := range devices {
		need := newDemand(set, 1)
		need.slots, need.rails = blockSlots, len(devices)
		r, err := t.openRail(i, name, need)
		if err != nil {
			return openError(err)
		}
		l.Settings.Devices = devices
		l.take(r)
		if err := r.dev.Close(); err != nil {
			return fmt.Errorf("fabric/rdma: %w", err)
		}
	}
	return nil
}

// take fills in what the device decides. Only that of the first rail does, because it carries the messages.
func (l *Limits) take(r *rail) {
	if r.index > 0 {
		return
	}
	l.takeAttributes(r)
	device := "device " + r.dev.Name()
	if l.Settings.Piece == 0 {
		l.Settings.Piece, l.Sources["Piece"] = r.piece, "packets of "+device
	}
	for field, grants := range map[string]struct {
		value *int
		grant int
	}{
		"Piece":  {&l.Settings.Piece, min(l.Settings.Piece, r.maxPiece)},
		"Inline": {&l.Settings.Inline, r.granted.inline},
		"Window": {&l.Settings.Window, r.granted.window},
	} {
		if *grants.value != grants.grant {
			*grants.value, l.Sources[field] = grants.grant, device
		}
	}
}

// sources returns the source of each number that complete would return.
func (s Settings) sources(env environment) map[string]string {
	from := map[string]string{}
	for _, n := range s.ints() {
		from[n.FieldName()] = source(n.FieldName(), n.Variable, *n.value != 0, env)
	}
	return from
}
