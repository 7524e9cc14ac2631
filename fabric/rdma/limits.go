package rdma

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
)

// HeaderBytes is the size of the header that the transport puts before each message.
const HeaderBytes = messages.HeaderBytes

// Limits are the settings in force in domains that a transport opens on this machine.
type Limits struct {
	// Settings are the values in force. Inline is what the device supports, and Piece fits its packets.
	Settings Settings
	// Sources names the source of each field of Settings that is a number: the field itself, an environment variable, a device,
	// or the default.
	Sources map[string]string
	// Attributes are the attributes of connections over the first device: the address of its port, and what administrators set.
	Attributes []Attribute
	// Region is the longest memory that the devices register. Longer messages are sent in fragments. 0: it is unknown.
	Region int
}

// Limits opens the devices as a job of two processes does, and closes them. If no device can be used, it returns an error with
// the reason and the settings without what devices decide: Piece may be 0, and Inline is what a device would be asked for.
func (t *Transport) Limits() (Limits, error) {
	set, err := t.Settings.Complete()
	if err != nil {
		return Limits{}, err
	}
	l := Limits{Settings: set, Sources: t.Settings.sources(os.Getenv),
		Attributes: t.Settings.inForce(&set, os.Getenv)}
	if set.Eager == set.Slot-messages.HeaderBytes {
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
			err := l.open(one)
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
func (l *Limits) open(t *Transport) error {
	d, err := t.openAlone()
	if err != nil {
		return err
	}
	l.Settings.Devices = t.Settings.Devices
	l.take(d.rails[0])
	l.Region = devicesOf(d.rails).MaxRegion()
	return d.Close()
}

// openAlone opens the devices as the first of two processes does. The other one does not exist.
func (t *Transport) openAlone() (*domain, error) {
	d, err := t.openDevices(context.Background(), &fabric.Config{Self: 0, Size: 2})
	if err != nil {
		return nil, err
	}
	return d.(*domain), nil
}

// Use says whether a job can use a port of a device.
type Use struct {
	Device string
	Port   int
	// Err is why it cannot, nil if it can.
	Err error
}

// Uses opens the active ports that a job on this machine may use, each alone and as a job opens it, and closes them. If devices
// are named, it opens only these, also those that do not exist or have no active port; Port is 0 if the name is without one. The
// error says that there are no ports, or that a setting is invalid.
func (t *Transport) Uses() ([]Use, error) {
	set, err := t.Settings.Complete()
	if err != nil {
		return nil, err
	}
	all, err := t.candidates(t.network())
	if err != nil && len(set.Devices) == 0 {
		return nil, err
	}
	choice := set.choice()
	var uses []Use
	for i := range all {
		c := &all[i]
		if len(set.Devices) > 0 && !slices.ContainsFunc(set.Devices, c.Is) {
			continue
		}
		one := *t
		one.Settings.Devices, one.selected = []string{fmt.Sprintf("%s:%d", c.Name(), c.Port.Number)}, devices.Selection{Chosen: *c}
		err := exported(choice.Check(c))
		if err == nil {
			err = one.tryOpen()
		}
		uses = append(uses, Use{c.Name(), c.Port.Number, err})
	}
	for _, named := range set.Devices {
		if slices.ContainsFunc(all, func(c devices.Candidate) bool { return c.Is(named) }) {
			continue
		}
		device, port, err := devices.SplitPort(named)
		if err == nil {
			one := *t
			one.Settings.Devices = []string{named}
			err = one.tryOpen()
		}
		uses = append(uses, Use{device, port, err})
	}
	return uses, nil
}

// tryOpen opens the devices as a job does, and closes them.
func (t *Transport) tryOpen() error {
	d, err := t.openAlone()
	if err != nil {
		return err
	}
	return d.Close()
}

// take fills in what the device of the first rail decides: it carries the messages.
func (l *Limits) take(r *rail) {
	l.takeAttributes(r)
	device := "device " + r.Dev.Name()
	if l.Settings.Piece == 0 {
		l.Settings.Piece, l.Sources["Piece"] = r.room.Piece, "packets of "+device
	}
	for field, grants := range map[string]struct {
		value *int
		grant int
	}{
		"Piece":  {&l.Settings.Piece, min(l.Settings.Piece, r.MaxPiece)},
		"Inline": {&l.Settings.Inline, r.Granted.Inline},
		"Window": {&l.Settings.Window, r.Granted.Window},
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
