package tunables

import "testing"

// TestStoresFromEnv: each name is that of its kind of stores, none is fastest, and another one is an error that names the
// variable.
func TestStoresFromEnv(t *testing.T) {
	for text, want := range map[string]Stores{
		"": FastestStores, "fastest": FastestStores, "cached": CachedStores, "nontemporal": NonTemporalStores,
	} {
		got, err := StoresFromEnv(func(string) string { return text })
		if got != want || err != nil || text != "" && got.String() != text {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	_, err := StoresFromEnv(func(string) string { return "fast" })
	if want := `IBRUN_SHM_STORES="fast": want fastest, cached, nontemporal`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
