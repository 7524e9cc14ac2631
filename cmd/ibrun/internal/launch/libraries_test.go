package launch

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
)

// executable returns an executable that is linked with these libraries: an ELF header, the table of strings, the dynamic section
// and the headers of both sections.
func executable(libraries ...string) []byte {
	const headerSize, sectionSize, dynSize = 64, 64, 16
	names := []byte{0}
	var dyn []elf.Dyn64
	for _, l := range libraries {
		dyn = append(dyn, elf.Dyn64{Tag: int64(elf.DT_NEEDED), Val: uint64(len(names))})
		names = append(append(names, l...), 0)
	}
	dyn = append(dyn, elf.Dyn64{Tag: int64(elf.DT_NULL)})
	for len(names)%8 != 0 {
		names = append(names, 0)
	}
	dynAt := uint64(headerSize + len(names))
	sections := []elf.Section64{
		{},
		{Type: uint32(elf.SHT_STRTAB), Off: headerSize, Size: uint64(len(names)), Addralign: 1},
		{Type: uint32(elf.SHT_DYNAMIC), Off: dynAt, Size: uint64(len(dyn) * dynSize), Link: 1, Addralign: 8, Entsize: dynSize},
	}
	header := elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Ehsize: headerSize,
		Shentsize: sectionSize, Shnum: uint16(len(sections)), Shstrndx: 1, Shoff: dynAt + uint64(len(dyn)*dynSize)}
	var b bytes.Buffer
	for _, part := range []any{header, names, dyn, sections} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			panic(err) // only if a part has no fixed size
		}
	}
	return b.Bytes()
}

// TestCheckLibraries checks that a program of Open MPI is refused, and no other one.
func TestCheckLibraries(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) program {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o700); err != nil {
			t.Fatal(err)
		}
		return program{path: path}
	}
	words := []cli.Program{{Args: []string{"./pi"}}}
	for library, refused := range map[string]bool{"libmpi.so.40": true, "libmpi.so.20": true, "libmpi_mpifh.so.40": true,
		"libmpi_cxx.so.40": true, "libmpi.so.12": false, "libmpich.so.12": false, "libmpi.so": false, "libmpifort.so.12": false,
		"libopen-rte.so.40": false, "libmpi.so.400": false} {
		err := checkLibraries([]program{write(library, executable("libm.so.6", library, "libc.so.6"))}, words, 4)
		if refused != (err != nil) || err != nil && !strings.Contains(err.Error(),
			"./pi is linked with Open MPI ("+library+"), whose ranks ibrun cannot connect; write: mpirun -n 4 ./pi, or") {
			t.Errorf("%s: %v; refused: %v", library, err, refused)
		}
	}
	for name, p := range map[string]program{
		"script":                              write("script", []byte("#!/bin/sh\nexec libmpi.so.40\n")),
		"no libraries":                        write("none", executable()),
		"damaged":                             write("damaged", executable("libmpi.so.40")[:100]),
		"empty":                               write("empty", nil),
		"missing":                             {path: filepath.Join(dir, "nothing")},
		"directory":                           {path: dir, isGo: true},
		"this test, statically linked or not": {path: os.Args[0]},
	} {
		if err := checkLibraries([]program{p}, words, 4); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := checkLibraries([]program{write("one", executable("libmpi.so.40"))}, words, 1); err != nil {
		t.Errorf("a world of one: %v", err)
	}
}
