package live

import "testing"

func TestLiveDevice(t *testing.T) {
	if device := Device(t); device == "" {
		t.Error("the device has no name")
	}
}
