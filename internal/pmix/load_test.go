//go:build linux && !static && (amd64 || arm64)

package pmix

import (
	"errors"
	"strings"
	"testing"
)

// TestMissing checks the errors if the library or a function of it is missing.
func TestMissing(t *testing.T) {
	for name, want := range map[string][]string{
		"libpmix.so.0.none": {"libpmix.so.0.none is missing", "libpmix2 (Debian", "cannot open"},
		"libc.so.6":         {"function PMIx_Abort of libc.so.6", "libpmix 3"},
	} {
		_, err := load(name)
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: got %v, want ErrUnsupported", name, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not contain %q", err, w)
			}
		}
	}
}
