package posting

import "testing"

// TestIsFlushed: a connection is flushed when the marker of each queue pair has completed, and the
// device has said that no message arrives any more. Devices that keep completions, and those that
// are lost, are not waited for.
func TestIsFlushed(t *testing.T) {
	var p Poster
	l, first, second := twoRails()
	for _, q := range l.Queues {
		q.Flushed = true
	}
	if !p.IsFlushed(l) || !p.IsFlushed(new(Lanes)) {
		t.Error("a connection is not flushed whose markers have all completed")
	}
	first.Shared = true
	l.Queues[1].Connected = true // it carries no messages
	if !p.IsFlushed(l) {
		t.Error("an event is waited for that is only raised for a queue pair that was connected")
	}
	l.Queues[0].Connected = true
	if p.IsFlushed(l) {
		t.Error("messages may still arrive")
	}
	l.Queues[0].LastWQE = true
	if !p.IsFlushed(l) {
		t.Error("the device has said that no message arrives any more")
	}
	l.Queues[3].Flushed = false
	if p.IsFlushed(l) {
		t.Error("a marker has not completed")
	}
	second.Lost = true
	if !p.IsFlushed(l) {
		t.Error("a device is waited for that is lost")
	}
	second.Lost, second.KeepsCompletions = false, true
	if !p.IsFlushed(l) {
		t.Error("completions are waited for that the device keeps")
	}
}
