//go:build linux && !static && (amd64 || arm64)

package verbstest_test

import (
	"testing"

	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
)

// TestMockPeerCloses closes a queue pair while its peer waits, without limit, for a receive that is not posted. The request fails
// as one without an answer does.
func TestMockPeerCloses(t *testing.T) {
	p := newMockPair(t, "mlx5_roce")
	ibvmock.Load(t).Set("speed", 1024)
	if err := p.a.SendInline(1, verbs.Signaled|verbs.RingDoorbell, []byte("message")); err != nil {
		t.Fatal(err)
	}
	if n, _ := polled(t, p.aCQ, 3); n != 0 {
		t.Fatal("a message is complete that nobody has received")
	}
	if err := p.b.Close(); err != nil {
		t.Fatal(err)
	}
	waittest.Poll(t, "the request completes", func() bool { return must(p.aCQ.Poll(p.wcs))(t) == 1 })
	if p.wcs[0].Status != verbs.StatusRetryExceeded {
		t.Errorf("the request fails with %v", p.wcs[0].Err())
	}
}
