package docs

import (
	"testing"

	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
)

// TestLiveWrite is the test that soft-roce.md begins.
func TestLiveWrite(t *testing.T) {
	device := live.Device(t) // "rxe0"; skips where IBRUN_LIVE is not set, fails where it is and there is no device
	d, err := verbs.Open(device, verbs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
