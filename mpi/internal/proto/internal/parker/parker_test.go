package parker

import "testing"

// checkWake checks that Wake prevents the next Park from blocking, once, and wakes a goroutine that
// is in Park.
func checkWake(t *testing.T, p Parker) {
	t.Helper()
	p.Wake()
	p.Wake()
	if err := p.Park(-1, 0); err != nil {
		t.Fatal(err)
	}
	begun, ended := make(chan bool), make(chan error)
	go func() {
		close(begun)
		ended <- p.Park(-1, 0)
	}()
	<-begun
	select {
	case err := <-ended:
		t.Fatalf("it did not block after a Park that followed both calls of Wake: %v", err)
	default:
	}
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
