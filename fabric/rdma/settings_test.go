package rdma

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/internal/tunables"
)

func TestSettings(t *testing.T) {
	env := func(pairs ...string) environment {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	s, err := Settings{}.complete(env())
	if err != nil || s.Slot != 6912 || s.Eager != 6912-messages.HeaderBytes || s.Window != 64 || s.Devices != nil {
		t.Errorf("by default %+v, %v", s, err)
	}
	s, err = Settings{Window: 7}.complete(env("IBRUN_RDMA_WINDOW", "9", "IBRUN_RDMA_EAGER", "100", "IBRUN_RDMA_DEVICES", "a,b"))
	if err != nil || s.Window != 7 || s.Eager != 100 || strings.Join(s.Devices, " ") != "a b" {
		t.Errorf("want a field to override the environment, and that the default: %+v, %v", s, err)
	}
	s, err = Settings{}.complete(env("IBRUN_HEARTBEAT", "20s"))
	if err != nil || s.Heartbeat != 20*time.Second {
		t.Errorf("with a heartbeat of 20s: %v, %v", s.Heartbeat, err)
	}
	if _, err := (Settings{Heartbeat: -1}).complete(env()); err == nil {
		t.Error("a negative heartbeat was accepted")
	}
	for variable, value := range map[string]string{
		"IBRUN_HEARTBEAT": "20",
		"IBRUN_RDMA_SLOT": "10", "IBRUN_RDMA_INLINE": "-1", "IBRUN_RDMA_PIECE": "1M", "IBRUN_RDMA_DEVICES": "a,b,c,d,e",
	} {
		if _, err := (Settings{}).complete(env(variable, value)); err == nil {
			t.Errorf("%s=%s was accepted", variable, value)
		}
	}
	for _, n := range new(Settings).ints() {
		if _, err := (Settings{}).complete(env(n.Variable, "0")); err == nil || !strings.Contains(err.Error(), n.Variable) {
			t.Errorf("%s=0, which is not the default: %v", n.Variable, err)
		}
	}
}

// TestAttributes: attributes of connections come from fields, then from the environment, and are checked in both places.
func TestAttributes(t *testing.T) {
	values := map[string]string{
		"IBRUN_RDMA_GID_INDEX": "0", "IBRUN_RDMA_PKEY": "0x8001", "IBRUN_RDMA_SL": "3", "IBRUN_RDMA_TRAFFIC_CLASS": "106",
		"IBRUN_RDMA_MTU": "1024", "IBRUN_RDMA_TIMEOUT": "18", "IBRUN_RDMA_RETRIES": "5", "IBRUN_RDMA_RNR_RETRIES": "6",
	}
	env := func(name string) string { return values[name] }
	s, err := Settings{Timeout: 16}.complete(env)
	if err != nil || s.GIDIndex == nil || *s.GIDIndex != 0 || s.PKey != 0x8001 || s.ServiceLevel != 3 || s.TrafficClass != 106 ||
		s.MTU != 1024 || s.Timeout != 16 || s.Retries != 5 || s.RNRRetries != 6 {
		t.Errorf("%+v, %v", s, err)
	}
	s, err = Settings{}.complete(func(string) string { return "" })
	if err != nil || s.GIDIndex != nil || s.PKey != 0 || s.ServiceLevel != 0 || s.TrafficClass != 0 || s.MTU != 0 ||
		s.Timeout != 14 || s.Retries != 7 || s.RNRRetries != 7 {
		t.Errorf("by default %+v, %v", s, err)
	}
	for variable := range values {
		bad := func(name string) string { return map[string]string{variable: "99999"}[name] }
		if _, err := (Settings{}).complete(bad); !errors.Is(err, tunables.ErrAttribute) || !strings.Contains(err.Error(), variable) {
			t.Errorf("%s=99999: %v", variable, err)
		}
	}
	long := Settings{Timeout: 22, Heartbeat: 15 * time.Second}
	if _, err := long.complete(env); !errors.Is(err, tunables.ErrAttribute) ||
		!strings.Contains(err.Error(), "IBRUN_RDMA_TIMEOUT=22") || !strings.Contains(err.Error(), "17.1799s") {
		t.Errorf("a timeout that is longer than the heartbeat: %v", err)
	}
	long.Heartbeat = 20 * time.Second
	if _, err := long.complete(env); err != nil {
		t.Error(err)
	}
	for _, set := range []Settings{{GIDIndex: new(256)}, {PKey: 0x8000}, {ServiceLevel: 16}, {TrafficClass: -1}, {MTU: 1500},
		{Timeout: 32}, {Retries: 8}, {RNRRetries: -1}} {
		if _, err := set.complete(env); !errors.Is(err, tunables.ErrAttribute) || !strings.Contains(err.Error(), "rdma.Settings.") {
			t.Errorf("%+v: %v", set, err)
		}
	}
}

// TestSenselessSettings: a value that is not a number, or out of range, is an error that names the variable and what is allowed.
// An empty one is the default.
func TestSenselessSettings(t *testing.T) {
	variables := []string{tunables.RDMAGIDIndex.Variable, tunables.Heartbeat}
	for _, n := range new(Settings).ints() {
		variables = append(variables, n.Variable)
	}
	for _, a := range new(Settings).attributes() {
		variables = append(variables, a.Variable)
	}
	texts := []string{"", "-1", "-99999999999999999999", "99999999999999999999", "9223372036854775807", "many", "1.5", " ", "0x"}
	for _, v := range variables {
		for _, text := range texts {
			_, err := (Settings{}).complete(func(name string) string { return map[string]string{v: text}[name] })
			switch {
			case text == "" && err != nil:
				t.Errorf("%s is empty: %v", v, err)
			case text == "":
			case err == nil, !strings.Contains(err.Error(), v),
				!strings.ContainsAny(strings.ReplaceAll(err.Error(), text, ""), "0123456789"):
				t.Errorf("%s=%q: %v", v, text, err)
			}
		}
	}
}

func TestSplitPort(t *testing.T) {
	for device, port := range map[string]int{
		"mlx5_0": 0, "mlx5_0:2": 2, "": -1, ":1": -1, "a:": -1, "a:0": -1, "a:256": -1, "a:1:1": -1,
	} {
		name, got, err := devices.SplitPort(device)
		if (err != nil) != (port < 0) || err == nil && (got != port || name != "mlx5_0") {
			t.Errorf("%q: %q, port %d, %v", device, name, got, err)
		}
		if _, err := (Settings{Devices: []string{device}}).complete(os.Getenv); (err != nil) != (port < 0) {
			t.Errorf("%q as a setting: %v", device, err)
		}
	}
}

// TestLimits: each number has a source, also if there is no device to query.
func TestLimits(t *testing.T) {
	t.Setenv("IBRUN_RDMA_STREAM", "5000")
	t.Setenv("IBRUN_RDMA_DEVICES", "nowhere0")
	l, err := (&Transport{Settings: Settings{Inline: 64}}).Limits()
	if err == nil || !strings.Contains(err.Error(), "fabric/rdma") {
		t.Errorf("a device that does not exist: %v", err)
	}
	if s := l.Settings; s.Stream != 5000 || s.Inline != 64 || s.Caps().MaxSend != 6912-HeaderBytes || s.Caps().Eager != s.Eager {
		t.Errorf("%+v", s)
	}
	for field, want := range map[string]string{
		"Stream": "IBRUN_RDMA_STREAM", "Inline": "Settings.Inline", "Slot": "default", "Eager": "what fits a slot",
		"Piece": "packets of the device",
	} {
		if l.Sources[field] != want {
			t.Errorf("%s comes from %q, want %q", field, l.Sources[field], want)
		}
	}
	t.Setenv("IBRUN_RDMA_SLOT", "1")
	if l, err := new(Transport).Limits(); err == nil || l.Settings.Slot != 0 {
		t.Errorf("a slot of one byte: %+v, %v", l, err)
	}
}
