package benchcmd

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFindPeers: the commands of each implementation are found by their own names and, if mpirun says whose it is, by the names
// that all have in common. Errors name the folder, or the packages.
func TestFindPeers(t *testing.T) {
	const openMPI, hydra = "mpirun (Open MPI) 5.0.7", "HYDRA build details:\n    Version:                                 4.2.1"
	for _, x := range []struct {
		commands map[string]string // what they print
		named    []string
		want     string // the commands that are found, with their versions, or a part of the error
	}{
		{map[string]string{"mpicc.openmpi": "", "mpirun.openmpi": openMPI, "mpicc.mpich": "", "mpirun.mpich": hydra}, nil,
			"mpirun.openmpi 5.0.7, mpirun.mpich 4.2.1"},
		{map[string]string{"mpicc": "", "mpirun": openMPI}, nil, "mpirun 5.0.7"},
		{map[string]string{"mpicc": "", "mpirun": hydra}, nil, "mpirun 4.2.1"},
		{map[string]string{"mpicc": "", "mpirun": hydra, "mpicc.mpich": "", "mpirun.mpich": "unknown"}, nil,
			"mpirun.mpich of unknown version"},
		{map[string]string{"mpicc": "", "mpirun": hydra}, []string{"openmpi"}, "found no openmpi in "},
		{map[string]string{"mpicc": "", "mpirun": "another MPI 1.2"}, nil, "found no openmpi or mpich in "},
		{map[string]string{"mpicc.openmpi": "", "mpirun": openMPI}, nil, "found no openmpi or mpich in "},
		{nil, []string{"sockets"}, ""},
	} {
		dir := t.TempDir()
		bin := filepath.Join(dir, "bin")
		if err := os.Mkdir(bin, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range x.commands {
			script := "#!/bin/sh\necho '" + text + "'\n"
			if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		// The same folder is given by the flag, and is the only one in the PATH.
		for _, from := range []string{dir, ""} {
			t.Setenv("PATH", bin)
			found, err := (&command{stderr: io.Discard}).findPeers(t.Context(), from, x.named)
			var got []string
			for _, f := range found {
				got = append(got, filepath.Base(f.mpirun)+" "+f.version)
			}
			want := x.want
			switch failed := strings.HasPrefix(want, "found no "); {
			case failed && from == "":
				if err == nil || !strings.Contains(err.Error(), "apt-get install openmpi-bin") {
					t.Errorf("%v in the PATH: %v, %v", x.commands, got, err)
				}
			case failed:
				if err == nil || !strings.Contains(err.Error(), want+bin) {
					t.Errorf("%v: %v, %v", x.commands, got, err)
				}
			case err != nil || strings.Join(got, ", ") != want:
				t.Errorf("%v from %q: %v, %v, want %s", x.commands, from, got, err, want)
			}
		}
	}
}
