package auto

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/fabric/shm"
	"github.com/ibrun/ibrun/fabric/tcp"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/internal/tunables"
)

// TestTransports: every transport that users may choose has an implementation and a path, under its name in the table.
func TestTransports(t *testing.T) {
	for _, want := range transports.Selectable() {
		n := Node{Transports: []string{want.String()}}
		implementation := n.transport(want)
		if implementation == nil || implementation.Name() != want.String() {
			t.Errorf("%s is implemented by %v", want, implementation)
			continue
		}
		paths, err := n.Paths()
		if err != nil || len(paths) == 0 || slices.ContainsFunc(paths, func(p Path) bool {
			return p.Transport != want.String() || p.Caps.Transport != want.String()
		}) {
			t.Errorf("the paths of %s are %+v, %v", want, paths, err)
		}
	}
}

// TestStores: the kinds of stores of the variable have the numbers of those in package shm.
func TestStores(t *testing.T) {
	for of, want := range map[tunables.Stores]shm.Stores{tunables.FastestStores: shm.Fastest, tunables.CachedStores: shm.Cached,
		tunables.NonTemporalStores: shm.NonTemporal} {
		if shm.Stores(of) != want {
			t.Errorf("%v has the number %d, want %d", of, of, want)
		}
	}
}

// TestTunables: every field of Thresholds is in the table under its own name, and the table's defaults and bounds are those of
// the transports.
func TestTunables(t *testing.T) {
	var set Thresholds
	fields := set.fields()
	if want := reflect.TypeFor[Thresholds]().NumField(); len(fields) != want {
		t.Errorf("%d of %d fields are in the table", len(fields), want)
	}
	for i, f := range fields {
		*f.value = i + 1
		if got := reflect.ValueOf(set).FieldByName(f.Threshold); !got.IsValid() || got.Int() != int64(i+1) {
			t.Errorf("%s does not set Thresholds.%s", f.Variable, f.Threshold)
		}
	}
	for _, tunable := range tunables.All() {
		if tunable.Threshold != "" && !slices.ContainsFunc(fields, func(f threshold) bool { return f.Tunable == tunable }) {
			t.Errorf("Thresholds has no field for %s", tunable.Variable)
		}
	}
	maxEager := new(tcp.Transport).Caps().Eager
	settings, err := rdma.Settings{}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tunable  *tunables.Tunable
		got, max int
	}{
		{&tunables.ShmStream, shm.FirstStream, tunables.ShmStream.Max},
		{&tunables.ShmRing, new(shm.Transport).LargestRing(), tunables.ShmRing.Max},
		{&tunables.TCPEager, maxEager, maxEager},
		{&tunables.TCPPush, tcp.PushBytes, tcp.PushBytes},
		{&tunables.RDMAStream, settings.Stream, tunables.RDMAStream.Max},
	} {
		if c.tunable.Default != c.got || c.tunable.Max != c.max {
			t.Errorf("%s has the default %d and the maximum %d, want %d and %d", c.tunable.Variable, c.tunable.Default, c.tunable.Max,
				c.got, c.max)
		}
	}
	ring := tunables.ShmRing
	want := fmt.Sprintf("Ring is %d; it must be 0, or %d to %d", ring.Min-1, ring.Min, ring.Max)
	tooSmall := shm.Transport{Local: []int{0}, Ring: ring.Min - 1}
	if _, err := tooSmall.Open(t.Context(), &fabric.Config{Size: 1}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want an error that contains %q", ring.Variable, err, want)
	}
}
