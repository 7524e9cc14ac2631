package foreign

import (
	"strconv"
	"strings"
)

// outputFlags are about input, output and messages.
func outputFlags() []Spelling {
	const oneFile = "ibrun writes standard output and standard error of a rank to one file: --output PATTERN, such as " +
		"out.%r; " +
		"to separate them, write: ibrun ... sh -c './app 2>err.$PMI_RANK'"
	return []Spelling{
		{Of: Hydra, Names: []string{"prepend-rank"}, To: "--label"},
		{Of: Hydra | Slurm, Names: []string{"l"}, To: "--label", Note: "`[3] ` before each line; srun writes `3: `"},
		{Of: Slurm, Names: []string{"label"}, To: "--label", Note: "`[3] ` before each line; srun writes `3: `"},
		{Of: OpenMPI, Names: []string{"tag-output"}, To: "--label",
			Note: "`[3] ` before each line; mpirun writes `[1,3]<stdout>:`"},
		{Of: Hydra, Names: []string{"prepend-pattern"}, Args: []string{"PATTERN"},
			Instead: "write --label, which prints [RANK]"},
		{Of: OpenMPI, Names: []string{"timestamp-output"}, Instead: `write: ibrun ... 2>&1 | ts '%FT%T' (package moreutils)`},
		{Of: Hydra, Names: []string{"ordered-output"},
			Instead: "write --output PATTERN, such as out.%r, or: ibrun --label ... | sort -s -k1,1"},
		{Of: Hydra, Names: []string{"output-from"}, Args: []string{"RANK"},
			Instead: `write: ibrun --label ... | grep '^\[$1\]'`},
		{Of: OpenMPI, Names: []string{"output"}, Args: []string{"tag"}, fits: isOutputDirective, convert: outputDirectives,
			To:    "--label",
			Means: "how output is shown",
			Note:  "also of the directives of Open MPI 5; the others are errors. A file named tag is `--output ./tag`"},
		{Of: Slurm, Names: []string{"output"}, Args: []string{"PATTERN"}, fits: isSlurmPattern, convert: slurmOutput,
			To:    "--output=$1",
			Means: "a pattern of file names", Note: "`%t` is `%r`, `%N` is `%h`; other fields are errors"},
		{Of: Slurm, Names: []string{"o"}, Args: []string{"FILE"}, fits: isNotNumber, convert: slurmOutput, To: "--output=$1",
			Means: "the file of the output", Note: "if FILE is not a number"},
		{Of: TACC, Names: []string{"o"}, Args: []string{"OFFSET"}, fits: isNumber, To: "--offset=$1",
			Means: "the first slot to use"},
		{Of: Slurm, Names: []string{"e", "error"}, Args: []string{"FILE"}, Instead: oneFile},
		{Of: Hydra, Names: []string{"outfile-pattern", "errfile-pattern"}, Args: []string{"PATTERN"}, Instead: oneFile},
		{Of: OpenMPI, Names: []string{"output-filename"}, Args: []string{"DIR"},
			Instead: "write --output $1/%r, which has both streams of a rank"},
		{Of: OpenMPI, Names: []string{"merge-stderr-to-stdout"}, Instead: "write: ibrun ... 2>&1"},
		{Of: OpenMPI, Names: []string{"xml"}, Instead: "write --label, or --report=FILE.json for a report"},
		{Of: OpenMPI, Names: []string{"xml-file"}, Args: []string{"FILE"},
			Instead: "write --label, or --report=FILE.json for a report"},
		{Of: Slurm, Names: []string{"i", "input"}, Args: []string{"FILE"}, convert: standardInput,
			NoEffect: "rank 0 reads standard input", Note: "for 0; other values are errors: `< FILE`"},
		{Of: OpenMPI, Names: []string{"stdin"}, Args: []string{"RANK"}, convert: standardInput,
			NoEffect: "rank 0 reads standard input", Note: "for 0; other values are errors: `< FILE`"},
		{Of: Slurm, Names: []string{"u", "unbuffered"}, NoEffect: "ibrun forwards lines as ranks write them"},
		{Of: Slurm, Names: []string{"pty"}, Instead: "ibrun gives ranks no terminal: use srun for a shell"},

		{Of: OpenMPI | Hydra, Names: []string{"verbose", "v"}, To: "--verbose"},
		{Of: Slurm, Names: []string{"vv", "vvv", "vvvv", "vvvvv"}, To: "--verbose"},
		{Of: OpenMPI | Slurm, Names: []string{"quiet"}, NoEffect: "ibrun prints nothing if nothing is wrong"},
		{Of: Slurm, Names: []string{"Q"}, NoEffect: "ibrun prints nothing if nothing is wrong"},
		{Of: OpenMPI, Names: []string{"q"}, NoEffect: "ibrun prints nothing if nothing is wrong",
			Means: "to print less"},
		{Of: Slurm, Names: []string{"q"}, Args: []string{"QOS"},
			Instead: "it belongs to the allocation: give it to salloc or sbatch",
			Means:   "the quality of service"},
		{Of: OpenMPI | Hydra | Slurm, Names: []string{"V", "version"}, To: "--version"},
		{Of: Slurm, Names: []string{"usage"}, To: "--help"},
		{Of: Hydra, Names: []string{"info"}, To: "--version"},
	}
}

func isNumber(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

func isNotNumber(s string) bool { return !isNumber(s) }

// isOutputDirective reports whether the value of --output is that of Open MPI 5 and not a file.
func isOutputDirective(s string) bool {
	for word := range strings.SplitSeq(s, ",") {
		name, _, _ := strings.Cut(strings.ToLower(word), "=")
		name, _, _ = strings.Cut(name, ":")
		switch name {
		case "tag", "tag-detailed", "tag-fullname", "rank", "timestamp", "xml", "merge-stderr-to-stdout":
		case "dir", "directory", "file", "filename":
			if !strings.Contains(word, "=") {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// outputDirectives is --output of Open MPI 5.
func outputDirectives(v []string) (meaning, error) {
	for word := range strings.SplitSeq(v[0], ",") {
		name, value, _ := strings.Cut(word, "=")
		switch strings.ToLower(name) {
		case "tag", "rank":
		case "tag-detailed", "tag-fullname":
			return instead("write --label, which prints [RANK]")
		case "timestamp":
			return instead("write: ibrun ... 2>&1 | ts '%%FT%%T' (package moreutils)")
		case "merge-stderr-to-stdout":
			return instead("write: ibrun ... 2>&1")
		case "dir", "directory", "file", "filename":
			value, _, _ = strings.Cut(value, ":")
			return instead("write --output %s/%%r, which has both streams of a rank", value)
		default:
			return instead("write --label, or --report=FILE.json for a report; a file of this name is ./%s", word)
		}
	}
	return to("--label")
}

// isSlurmPattern reports whether a pattern has a field that only Slurm has.
func isSlurmPattern(s string) bool {
	for {
		_, rest, found := strings.Cut(s, "%")
		if !found || rest == "" {
			return false
		}
		if !strings.ContainsRune("rh%", rune(rest[0])) {
			return true
		}
		s = rest[1:]
	}
}

// slurmOutput is Slurm's --output with a pattern.
func slurmOutput(v []string) (meaning, error) {
	var b strings.Builder
	for i := 0; i < len(v[0]); i++ {
		if b.WriteByte(v[0][i]); v[0][i] != '%' || i+1 == len(v[0]) {
			continue
		}
		i++
		switch v[0][i] {
		case 't':
			b.WriteByte('r')
		case 'N':
			b.WriteByte('h')
		case '%', 'r', 'h':
			b.WriteByte(v[0][i])
		default:
			return instead("%%%c has no counterpart: write %%t or %%r for the rank, %%N or %%h for the host", v[0][i])
		}
	}
	if v[0] == "none" {
		return instead("write: ibrun ... >/dev/null")
	}
	return to("--output=" + b.String())
}

// standardInput returns which ranks read standard input.
func standardInput(v []string) (meaning, error) {
	switch v[0] {
	case "0":
		return noEffect("rank 0 reads standard input")
	case "none":
		return instead("write: ibrun ... </dev/null")
	case "all":
		return instead("only rank 0 reads standard input; for a file, write: ibrun ... sh -c './app <FILE'")
	}
	if isNumber(v[0]) {
		return instead("only rank 0 reads standard input")
	}
	return instead("rank 0 reads standard input: write ibrun ... <%s", v[0])
}
