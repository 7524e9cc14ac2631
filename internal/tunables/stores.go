package tunables

import (
	"fmt"
	"slices"
	"strings"
)

// ShmStores is the variable that names the stores by which parts of messages are copied into shared memory.
const ShmStores = "IBRUN_SHM_STORES"

// Stores is a value of the variable [ShmStores], with the numbers of the type of the same name in fabric/shm.
type Stores uint8

// The kinds of stores.
const (
	FastestStores     Stores = iota // those that prove to be faster
	CachedStores                    // ordinary ones
	NonTemporalStores               // past the caches
)

var storesNames = [...]string{FastestStores: "fastest", CachedStores: "cached", NonTemporalStores: "nontemporal"}

// String returns fastest, cached or nontemporal.
func (s Stores) String() string { return storesNames[s] }

// StoresFromEnv returns the value of the variable [ShmStores], or FastestStores if it is not set.
func StoresFromEnv(getenv func(string) string) (Stores, error) {
	text := getenv(ShmStores)
	if text == "" {
		return FastestStores, nil
	}
	i := slices.Index(storesNames[:], text)
	if i < 0 {
		return FastestStores, fmt.Errorf("%s=%.60q: want %s", ShmStores, text, strings.Join(storesNames[:], ", "))
	}
	return Stores(i), nil
}
