package perftest

import "testing"

// TestRefuses: an invalid test is rejected before anything is opened.
func TestRefuses(t *testing.T) {
	good := Test{Op: "send_lat", Size: 8, Iterations: 10, Settings: Settings{Depth: 1, Moderation: 1}}
	for name, change := range map[string]func(*Test){
		"operation":  func(t *Test) { t.Op = "send" },
		"size":       func(t *Test) { t.Size = 0 },
		"atomics":    func(t *Test) { t.Op, t.Size = "atomic_lat", 16 },
		"iterations": func(t *Test) { t.Iterations = 1 },
		"moderation": func(t *Test) { t.Moderation = 2 },
	} {
		bad := good
		change(&bad)
		if _, err := Run(bad, Client, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Run(good, "observer", nil); err == nil {
		t.Error("role: no error")
	}
}
