//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// libraryWith returns the path of a library that has the functions of libibverbs without those that are to be missing. With
// source, which is C, it has those of the source as well. No other function may be called.
func libraryWith(t *testing.T, source string, missing ...string) string {
	t.Helper()
	source += "#include <errno.h>\nint last_error(void) { return errno; }\n" // so that it is linked with the C library
	for _, name := range slices.Sorted(maps.Keys((&library{}).symbols())) {
		if !slices.Contains(missing, name) && !strings.Contains(source, name+"(") && !strings.HasPrefix(name, "__") {
			source += fmt.Sprintf("void %s(void) {}\n", name)
		}
	}
	path := filepath.Join(t.TempDir(), "verbs.c")
	if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	return compile(t, path)
}

// TestOldLibrary loads libraries that lack functions: those that are optional, and one that is not.
func TestOldLibrary(t *testing.T) {
	l, err := load(libraryWith(t, "", queryGIDTable, regMRIova2, regDmabufMR, reregMR))
	if err != nil {
		t.Fatalf("a library of rdma-core 12: %v", err)
	}
	if l.queryGIDTable != nil || l.regMRIova2 != nil || l.regDmabufMR != nil || l.reregMR != nil || l.regMR == nil {
		t.Error("the optional functions are not nil, or ibv_reg_mr is")
	}
	_, err = load(libraryWith(t, "", "ibv_create_srq"))
	var m *MissingError
	if !errors.As(err, &m) || !strings.Contains(err.Error(), "ibv_create_srq") || !strings.Contains(err.Error(), "rdma-core 12") {
		t.Errorf("a library without ibv_create_srq: %v, want a MissingError with this name and the version that is needed", err)
	}
}

// TestOptionalFunctions makes the calls whose functions an old library lacks.
func TestOptionalFunctions(t *testing.T) {
	f := newFake(t)
	region := &ibv.MR{LKey: 5, RKey: 6}
	var got int32
	f.lib.regMR = func(_, _, _ uintptr, access int32) uintptr { got = access; return address(region) }
	p := &pd{ctx: f.context()}
	m, err := p.RegMR(4096, 8, 4096, uint32(uverbs.AccessLocalWrite|uverbs.AccessRelaxedOrdering))
	if err != nil || uverbs.Access(got) != uverbs.AccessLocalWrite {
		t.Fatalf("registered with access %#x, %v; want %#x without the optional flag", got, err, uverbs.AccessLocalWrite)
	}
	if l, r := m.Keys(); l != 5 || r != 6 {
		t.Errorf("keys %d and %d, want 5 and 6", l, r)
	}
	_, far := p.RegMR(4096, 8, 8192, 0)
	_, dmabuf := p.RegDmabuf(3, 0, 8, 0, 0)
	_, gids := p.ctx.QueryGIDs()
	for need, err := range map[string]error{
		"ibv_reg_mr_iova2 of libibverbs.so.1 is missing: needs rdma-core 28":     far,
		"ibv_reg_dmabuf_mr of libibverbs.so.1 is missing: needs rdma-core 34":    dmabuf,
		"_ibv_query_gid_table of libibverbs.so.1 is missing: needs rdma-core 32": gids,
		"ibv_rereg_mr of libibverbs.so.1 is missing: needs rdma-core 12":         m.Rereg(0, nil, 0, 0, 0, 0),
	} {
		if err == nil || !strings.Contains(err.Error(), need) || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v, want ErrUnsupported with %q", err, need)
		}
	}
}

// TestRegDmabuf passes arguments to the function in C, and returns what it refuses.
func TestRegDmabuf(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("testdata", "dmabuf.c"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := load(libraryWith(t, string(source)))
	if err != nil {
		t.Fatal(err)
	}
	var p ib.PD = &pd{ctx: &context{lib: l}, ptr: 77}
	const offset, length, iova = 1<<33 + 4096, 1 << 34, 1<<45 + 4096
	m, err := p.(ib.DmabufRegistrar).RegDmabuf(9, offset, length, iova, uint32(uverbs.AccessRemoteRead))
	if err != nil {
		t.Fatal(err)
	}
	want := ibv.MR{PD: 77, Addr: offset ^ iova, Length: length, LKey: 9, RKey: uint32(uverbs.AccessRemoteRead)}
	if got := *structAt[ibv.MR](m.(*mr).ptr); got != want {
		t.Errorf("C received %+v, want %+v", got, want)
	}
}
