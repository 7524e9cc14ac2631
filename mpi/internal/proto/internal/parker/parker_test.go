package parker

import (
	"testing"
	"time"
)

// checkWake checks that Wake prevents the next Park from blocking, once, that a time limit ends a
// Park, and that Wake wakes a goroutine that is in Park or about to be.
func checkWake(t *testing.T, p Parker) {
	t.Helper()
	p.Wake()
	p.Wake()
	if err := p.Park(-1, 0); err != nil {
		t.Fatal(err)
	}
	const limit = 10 * time.Millisecond
	begin := time.Now()
	if err := p.Park(-1, limit); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < limit {
		t.Errorf("a Park that followed both calls of Wake took %v, want at least %v", took, limit)
	}
	ended := make(chan error)
	go func() { ended <- p.Park(-1, 0) }()
	p.Wake()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestChannelWake: the properties of checkWake hold for a channel.
func TestChannelWake(t *testing.T) { checkWake(t, NewChannel()) }
