package rdma

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/internal/tunables"
)

// Attribute is an attribute of connections that is in force. See [Limits].
type Attribute struct {
	// Name describes the attribute, and Value is what is in force, as text; empty if it is unknown without a device.
	Name, Value string
	// Source says where the value comes from: a field of Settings, an environment variable, a device, or the default.
	Source string
	// Variable is the environment variable that changes it; empty if there is none.
	Variable string
}

// source returns the source of a value: its field if that is set, its variable if that is set, or the default.
func source(field, variable string, set bool, env environment) string {
	switch {
	case set:
		return "Settings." + field
	case env(variable) != "":
		return variable
	}
	return "default"
}

// inForce returns the attributes of connections, with their sources and what settings alone say. The values that only a device
// knows are empty.
func (s *Settings) inForce(complete *Settings, env environment) []Attribute {
	index := Attribute{Name: tunables.RDMAGIDIndex.Name, Variable: tunables.RDMAGIDIndex.Variable,
		Source: source("GIDIndex", tunables.RDMAGIDIndex.Variable, s.GIDIndex != nil, env)}
	if complete.GIDIndex != nil {
		index.Value = strconv.Itoa(*complete.GIDIndex)
	}
	devices := Attribute{Name: devicesName, Value: strings.Join(complete.Devices, ", "), Variable: tunables.RDMADevices,
		Source: source("Devices", tunables.RDMADevices, len(s.Devices) > 0, env)}
	list := []Attribute{devices, index}
	values := complete.attributes()
	for i, a := range s.attributes() {
		one := Attribute{Name: a.Name, Variable: a.Variable, Source: source(a.FieldName(), a.Variable, *a.value != 0, env)}
		switch v := *values[i].value; {
		case a.Attribute == &tunables.RDMATimeout:
			one.Value = fmt.Sprintf("%d (%v)", v, timeoutDuration(v))
		case a.Attribute == &tunables.RDMAPKey && v != 0:
			one.Value = fmt.Sprintf("0x%04x", v)
		case v != 0 || a.Min == 0:
			one.Value = strconv.Itoa(v)
		}
		list = append(list, one)
	}
	return list
}

// devicesName is the name of the attribute that lists the devices.
const devicesName = "devices"

// timeoutDuration returns how long a device waits with a value of the attribute timeout.
func timeoutDuration(timeout int) time.Duration {
	return (time.Duration(4096) << timeout).Round(100 * time.Microsecond)
}

// takeAttributes fills in the attributes that the port of the first rail decides.
func (l *Limits) takeAttributes(r *rail) {
	device := "device " + r.Dev.Name()
	for i := range l.Attributes {
		a := &l.Attributes[i]
		value := ""
		switch a.Name {
		case tunables.RDMAGIDIndex.Name:
			if g, err := r.Dev.ChooseGID(r.Port, r.Address.GID); err == nil && l.Settings.GIDIndex == nil {
				value = strconv.Itoa(g.Index)
			}
		case devicesName:
			if value = strings.Join(l.Settings.Devices, ", "); a.Source == "default" {
				a.Value, a.Source = value, "nearest that work"
			}
		case tunables.RDMAPKey.Name:
			if r.InfiniBand {
				value = cm.KeyNames(r.Keys())
			} else if a.Value != "" {
				value = a.Value + ", not used: RoCE has no partitions"
			}
		case tunables.RDMAMTU.Name:
			value = r.Address.MTU.String()
		}
		if value != "" && value != a.Value {
			if a.Value = value; a.Source == "default" || a.Name == tunables.RDMAMTU.Name {
				a.Source = device
			}
		}
	}
	if !r.InfiniBand {
		l.Attributes = slices.DeleteFunc(l.Attributes, func(a Attribute) bool {
			return a.Name == tunables.RDMAPKey.Name && a.Value == ""
		})
	}
	port := Attribute{Name: "port", Value: fmt.Sprintf("%s:%d, %v", r.Dev.Name(), r.Port, &r.Address), Source: device}
	l.Attributes = slices.Insert(l.Attributes, 0, port)
}
