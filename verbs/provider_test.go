package verbs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/verbs"
)

// TestUnknownProvider: the error for a provider that does not exist names the variable only if the name comes from there.
func TestUnknownProvider(t *testing.T) {
	t.Setenv(verbs.ProviderVariable, "nosuch")
	_, fromEnv := verbs.Open("", verbs.Options{})
	_, fromOptions := verbs.Open("", verbs.Options{Provider: "magic"})
	for name, err := range map[string]error{"nosuch": fromEnv, "magic": fromOptions, "other": verbs.CheckProvider("other")} {
		if !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), "unknown provider "+name) ||
			strings.Contains(err.Error(), verbs.ProviderVariable) != (name == "nosuch") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
