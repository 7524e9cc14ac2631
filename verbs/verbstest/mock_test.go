//go:build linux && !static && (amd64 || arm64)

package verbstest_test

import (
	"testing"

	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestMock runs the suite through provider libibverbs on every kind of device that the mock has.
func TestMock(t *testing.T) {
	lib := ibvmock.Load(t)
	lib.Set("speed", 64) // connections without an answer fail soon
	for _, p := range ibvmock.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			dev := lib.NewDevice(p.Name)
			verbstest.Run(t, func(tb testing.TB) *verbs.Context {
				ctx, err := verbstest.OpenLibrary(dev)
				if err != nil {
					tb.Fatal(err)
				}
				return ctx
			})
		})
	}
}
