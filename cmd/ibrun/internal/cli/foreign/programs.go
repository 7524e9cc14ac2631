package foreign

import "strings"

// programFlags are about one program: how many ranks run it, in which folder, with which variables.
func programFlags() []Spelling {
	const whole = `ranks get the whole environment; for the listed variables only, write: env -i PATH="$PATH" ` +
		`NAME="$NAME" ibrun ...`
	return []Spelling{
		{Of: OpenMPI | Hydra | Slurm | TACC, Names: []string{"n"}, Args: []string{"N"}, To: "-n=$1"},
		{Of: OpenMPI | Hydra | TACC, Names: []string{"np"}, telling: true, Args: []string{"N"}, To: "-n=$1"},
		{Of: Slurm, Names: []string{"ntasks"}, Args: []string{"N"}, To: "-n=$1"},
		{Of: OpenMPI, Names: []string{"c"}, Args: []string{"N"}, To: "-n=$1", Means: "the number of ranks"},
		{Of: Slurm, Names: []string{"c"}, Args: []string{"N"}, To: "--cpus-per-rank=$1",
			Means: "the number of cores of each rank"},

		{Of: OpenMPI | Hydra, Names: []string{"wdir"}, Args: []string{"DIR"}, To: "--wdir=$1"},
		{Of: OpenMPI | Hydra, Names: []string{"wd"}, Args: []string{"DIR"}, To: "--wdir=$1"},
		{Of: Slurm, Names: []string{"chdir"}, Args: []string{"DIR"}, To: "--wdir=$1"},
		{Of: Slurm, Names: []string{"D"}, Args: []string{"DIR"}, To: "--wdir=$1", fits: func(s string) bool {
			return strings.ContainsAny(s, "/.")
		}, Note: "DIR must contain a slash or a dot", Means: "the working directory"},
		{Of: Hydra, Names: []string{"D"}, Args: []string{"LEVEL"}, Instead: "-v prints what ibrun does",
			Means: "a level of debugging",
			fits:  func(string) bool { return false }},
		{Of: OpenMPI, Names: []string{"set-cwd-to-session-dir"},
			Instead: `write --wdir DIR, or: ibrun ... sh -c 'cd "$(mktemp -d)" && exec ./app'`},

		{Of: OpenMPI, Names: []string{"x"}, Args: []string{"NAME[=VALUE]"}, To: "-x=$1", usual: true, convert: exportVariable,
			Means: "a variable for the ranks", Note: "ranks get the whole environment in any case"},
		{Of: Slurm, Names: []string{"x"}, Args: []string{"HOSTS"}, Instead: "write --hosts with the hosts to use",
			Means: "a list of hosts not to use", fits: func(s string) bool { return !strings.Contains(s, "=") }},
		{Of: Hydra, Names: []string{"env"}, Args: []string{"NAME", "VALUE"}, To: "-x=$1=$2", pair: true, oneDash: true,
			convert: setVariable, Note: "`-env NAME=VALUE` too; for this program. With two dashes, `--env NAME` is `-x NAME`"},
		{Of: Hydra, Names: []string{"genv"}, Args: []string{"NAME", "VALUE"}, To: "-x=$1=$2", pair: true, global: true,
			convert: setVariable, Note: "`-genv NAME=VALUE` too; for all programs"},
		{Of: Hydra, Names: []string{"envall", "genvall"}, NoEffect: "ranks get the whole environment"},
		{Of: Hydra, Names: []string{"envnone", "genvnone"},
			Instead: `ranks get the whole environment; for none of it, write: ` +
				`env -i PATH="$PATH" ibrun ...`},
		{Of: Hydra, Names: []string{"envlist", "genvlist", "envexcl"}, Args: []string{"NAMES"}, Instead: whole},
		{Of: Slurm, Names: []string{"export"}, Args: []string{"ALL[,NAME=VALUE...]"}, To: "-x=NAME=VALUE", convert: export,
			Note: "a list without `ALL` is an error: ranks get the whole environment"},
		{Of: Slurm, Names: []string{"E", "preserve-env"}, NoEffect: "ranks get the whole environment"},
		{Of: Slurm, Names: []string{"export-file"}, Args: []string{"FILE"}, Instead: "write: env $(cat $1) ibrun ..."},
		{Of: OpenMPI, Names: []string{"unset-env"}, Args: []string{"NAME"}, Instead: "write: env -u $1 ibrun ..."},
		{Of: OpenMPI, Names: []string{"prepend-env"}, Args: []string{"NAME", "VALUE"}, Instead: `write -x $1="$2:$$1"`},
		{Of: OpenMPI, Names: []string{"append-env"}, Args: []string{"NAME", "VALUE"}, Instead: `write -x $1="$$1:$2"`},
		{Of: OpenMPI, Names: []string{"prefix"}, Args: []string{"DIR"},
			Instead: `ibrun does not use the files of Open MPI; for programs ` +
				`that do, write: -x LD_LIBRARY_PATH="$1/lib:$LD_LIBRARY_PATH"`},
		{Of: OpenMPI, Names: []string{"noprefix"}, NoEffect: "ibrun changes no paths"},
		{Of: OpenMPI | Hydra, Names: []string{"path"}, Args: []string{"PATH"}, Instead: `write: env PATH="$1:$PATH" ibrun ...`},
		{Of: Hydra, Names: []string{"umask"}, Args: []string{"MASK"}, Instead: "write: (umask $1; ibrun ...)"},

		{Of: OpenMPI, Names: []string{"app"}, Args: []string{"FILE"}, keep: keepAppFile, To: "-n N PROGRAM : ...",
			Note: "each line is a program with its flags"},
		{Of: Hydra, Names: []string{"configfile"}, Args: []string{"FILE"}, keep: keepConfigFile, To: "-n N PROGRAM : ...",
			Note: "each line is a program with its flags"},
		{Of: Slurm, Names: []string{"multi-prog"}, keep: keepMultiProg, To: "-n N PROGRAM : ...",
			Note: "the program is then a file with lines `RANKS PROGRAM ARGUMENT...`; `*`, `%t`, `%o` and `'...'` are known"},
	}
}

// exportVariable is Open MPI's -x: NAME=VALUE, NAME, or PREFIX*.
func exportVariable(v []string) (meaning, error) {
	if name, _, hasValue := strings.Cut(v[0], "="); !hasValue && strings.HasSuffix(name, "*") {
		return noEffect("ranks get the whole environment, with all variables " + name)
	}
	return to("-x=" + v[0])
}

// setVariable is hydra's -env: NAME VALUE, or NAME=VALUE in one word.
func setVariable(v []string) (meaning, error) {
	if len(v) == 1 {
		return to("-x=" + v[0])
	}
	return to("-x=" + v[0] + "=" + v[1])
}

// export is Slurm's --export: ALL and variables.
func export(v []string) (m meaning, err error) {
	all := false
	for word := range strings.SplitSeq(v[0], ",") {
		name, _, hasValue := strings.Cut(word, "=")
		switch {
		case strings.EqualFold(word, "ALL"):
			all = true
		case strings.EqualFold(word, "NONE") || strings.EqualFold(word, "NIL"):
			return instead(`ranks get the whole environment; for none of it, write: env -i PATH="$PATH" ibrun ...`)
		case name == "":
			return instead("a variable needs a name")
		case hasValue:
			m.words = append(m.words, "-x="+word)
		}
	}
	if !all {
		return instead(`ranks get the whole environment: write --export=ALL,%s, or for these variables only: `+
			`env -i PATH="$PATH" NAME=VALUE ibrun ...`, v[0])
	}
	if len(m.words) == 0 {
		m.note = "ranks get the whole environment"
	}
	return m, nil
}
