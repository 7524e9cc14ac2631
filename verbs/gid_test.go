//go:build linux

package verbs_test

import (
	"fmt"
	"net/netip"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/opener"
	"github.com/ibrun/ibrun/verbs/internal/rxe"
	"github.com/ibrun/ibrun/verbs/internal/rxetest"
)

// noGIDTables is a provider whose library or kernel cannot query GID tables.
type noGIDTables struct{ ib.Provider }

type noGIDTable struct{ ib.Context }

func (p noGIDTables) Open(dev ib.Device) (ib.Context, error) {
	x, err := p.Provider.Open(dev)
	return noGIDTable{x}, err
}

func (noGIDTable) QueryGIDs() ([]ib.GID, error) {
	return nil, fmt.Errorf("query_gid_table: %w", syscall.EOPNOTSUPP)
}

// TestGIDsOfOldLibrary checks that the GIDs are those of sysfs, with their types, if the provider cannot query them.
func TestGIDsOfOldLibrary(t *testing.T) {
	k := rxetest.New()
	d := k.Device()
	dev, err := opener.Open(noGIDTables{rxe.On(k)}, d)
	must(t, err)
	defer dev.Close()
	gids, err := dev.GIDs(1)
	must(t, err)
	if want := d.Ports[0].GIDs; fmt.Sprint(gids) != fmt.Sprint(want) {
		t.Errorf("GIDs %v, want %v", gids, want)
	}
	gid, err := dev.ChooseGID(1, netip.MustParseAddr("10.0.0.1"))
	must(t, err)
	if gid.Index != 1 {
		t.Errorf("chose the GID %v, want that with index 1", gid)
	}
}
