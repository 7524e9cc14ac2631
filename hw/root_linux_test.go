package hw

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

// rootTree returns the same texts and errors as os.DirFS.
func TestRootTree(t *testing.T) {
	tree, err := openRoot()
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()
	same := 0
	for _, name := range []string{
		"sys/devices/system/cpu/online", "sys/devices/system/cpu/possible", "sys/kernel/mm/transparent_hugepage/enabled",
		"sys/devices/system/cpu/none", "none/online", "sys/devices/system/cpu",
	} {
		got, err := tree.readFile(name)
		want, wantErr := fs.ReadFile(os.DirFS("/"), name)
		if got != string(want) || errors.Is(err, fs.ErrNotExist) != errors.Is(wantErr, fs.ErrNotExist) {
			t.Errorf("%s: read %q, %v; want %q, %v", name, got, err, want, wantErr)
		}
		if (err == nil) != (wantErr == nil) {
			t.Errorf("%s: error is %v, want %v", name, err, wantErr)
		}
		if err == nil {
			same++
		}
	}
	if same == 0 {
		t.Error("no file could be read")
	}
}
