package debian

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestLoadOrder(t *testing.T) {
	below := map[string][]string{"rdma_rxe": {"ib_uverbs", "ib_core"}, "ib_uverbs": {"ib_core"}, "ib_core": nil, "crc32_pclmul": nil}
	find := func(name string) ([]string, error) {
		d, ok := below[name]
		if !ok {
			return nil, errors.New("no " + name)
		}
		return d, nil
	}
	got, err := loadOrder([]string{"rdma_rxe", "crc32-pclmul", "ib_uverbs"}, find)
	if want := []string{"ib_core", "ib_uverbs", "rdma_rxe", "crc32_pclmul"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if _, err := loadOrder([]string{"siw"}, find); err == nil {
		t.Error("a missing module was found")
	}
}

// module returns an ELF file with a section .modinfo, like a kernel module.
func module(info string) []byte {
	const names = "\x00.modinfo\x00.shstrtab\x00"
	const head, section = 64, 64
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Ehsize: head, Shoff: uint64(head + len(info) + len(names)), Shentsize: section, Shnum: 3, Shstrndx: 2,
	})
	b.WriteString(info + names)
	for _, s := range []elf.Section64{
		{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: head, Size: uint64(len(info))},
		{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: uint64(head + len(info)), Size: uint64(len(names))},
	} {
		binary.Write(&b, binary.LittleEndian, s)
	}
	return b.Bytes()
}

func TestDependencies(t *testing.T) {
	for info, want := range map[string][]string{
		"license=GPL\x00depends=\x00name=veth\x00":         nil,
		"license=GPL\x00depends=a-b,c\x00name=rdma\x00":    {"a_b", "c"},
		"license=GPL\x00softdep=pre: x\x00name=lonely\x00": nil,
	} {
		file := filepath.Join(t.TempDir(), "m.ko")
		if err := os.WriteFile(file, module(info), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := dependencies(file); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", info, got, err, want)
		}
	}
	text := filepath.Join(t.TempDir(), "text")
	os.WriteFile(text, []byte("no module"), 0o600)
	if _, err := dependencies(text); err == nil {
		t.Error("a text file was accepted as a module")
	}
}

func TestNewestInCache(t *testing.T) {
	cache := t.TempDir()
	for _, release := range []string{"6.1.0-9-amd64", "6.1.0-56-amd64", "6.1.0-7-amd64"} {
		os.Mkdir(filepath.Join(cache, release+"_key"), 0o700)
	}
	os.Mkdir(filepath.Join(cache, "6.12.0-1-amd64_other"), 0o700)
	k, err := cached(cache, "key")
	if err != nil || k.Release != "6.1.0-56-amd64" {
		t.Errorf("%+v, %v", k, err)
	}
}

// fakeTools puts scripts into PATH that replace the tools of the distribution.
func fakeTools(t *testing.T, scripts map[string]string) {
	t.Helper()
	bin := t.TempDir()
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nset -e\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
}

// fakeDistribution replaces the tools by those of a Debian whose kernel package has two modules; one depends on the other.
func fakeDistribution(t *testing.T) {
	t.Helper()
	modules := t.TempDir()
	os.WriteFile(filepath.Join(modules, "low-er.ko"), module("depends=\x00"), 0o600)
	os.WriteFile(filepath.Join(modules, "upper.ko"), module("depends=low-er\x00"), 0o600)
	fakeTools(t, map[string]string{
		"apt-cache": "printf 'linux-image-amd64\\n  Depends: linux-image-6.1.0-56-amd64\\n'",
		"apt-get":   `[ "$1" = download ]; echo deb > "$3_6.1.192-2_amd64.deb"`,
		"dpkg": `[ "$1" = -x ]; mkdir -p "$3/boot" "$3/lib/modules/x/kernel"; echo kernel >"$3/boot/vmlinuz-6.1.0-56-amd64"
			cp ` + modules + `/*.ko "$3/lib/modules/x/kernel"`,
	})
}

func TestKernel(t *testing.T) {
	fakeDistribution(t)
	cache := filepath.Join(t.TempDir(), "cache")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			k, err := Kernel(context.Background(), cache, []string{"upper"})
			if err != nil {
				t.Error(err)
				return
			}
			var names []string
			for _, m := range k.Modules {
				names = append(names, filepath.Base(m))
			}
			image, err := os.ReadFile(k.Image)
			if string(image) != "kernel\n" || !slices.Equal(names, []string{"00-low_er.ko", "01-upper.ko"}) || err != nil {
				t.Errorf("%q, %v, %v", image, names, err)
			}
		})
	}
	all.Wait()
	fakeTools(t, nil) // a cached kernel does not need the tools
	if _, err := Kernel(context.Background(), cache, []string{"upper"}); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(cache)
	if err != nil || len(left) != 1 {
		t.Errorf("in the cache are %v, %v", left, err)
	}
}

func TestKernelErrors(t *testing.T) {
	for name, c := range map[string]struct {
		scripts map[string]string
		module  string
		want    string
	}{
		"no apt":   {map[string]string{"apt-cache": "exit 127"}, "upper", "apt-cache depends"},
		"no lists": {map[string]string{"apt-cache": ""}, "upper", "apt-get update"},
		"superseded": {map[string]string{"apt-cache": "echo '  Depends: linux-image-1'", "apt-get": "echo 404 >&2; exit 100"},
			"upper", "404"},
		"no such module": {nil, "siw", "has no module siw"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.scripts != nil {
				fakeTools(t, c.scripts)
			} else {
				fakeDistribution(t)
			}
			cache := t.TempDir()
			_, err := Kernel(context.Background(), cache, []string{c.module})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v; want %q in it", err, c.want)
			}
			if left, _ := os.ReadDir(cache); len(left) > 0 {
				t.Errorf("remaining in the cache: %v", left)
			}
		})
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Kernel(context.Background(), t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "no apt-cache here") {
		t.Errorf("without apt: %v", err)
	}
}
