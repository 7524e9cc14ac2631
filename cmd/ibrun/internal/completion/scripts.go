package completion

// bashScript completes in bash. Bash splits words at = and :, so the words are read from the line, and what bash takes for
// earlier words is cut off the candidates.
const bashScript = `# bash completion of ibrun. Written by: ibrun completion bash

_ibrun() {
	local line=${COMP_LINE:0:COMP_POINT} current=${COMP_WORDS[COMP_CWORD]} word path before value
	local -a typed
	read -ra typed <<<"$line"
	case $line in *[[:space:]]) typed+=("") ;; esac
	word=${typed[${#typed[@]}-1]}
	case $current in = | :) current= ;; esac
	before=${word%"$current"}
	path=$word
	case $word in -*=*) path=${word#*=} ;; esac
	COMPREPLY=()
	while IFS=$'\t' read -r value _; do
		case $value in
		:files)
			compopt -o filenames 2>/dev/null
			while read -r value; do COMPREPLY+=("$value"); done < <(compgen -f -- "$path")
			;;
		:directories)
			compopt -o filenames 2>/dev/null
			while read -r value; do COMPREPLY+=("$value"); done < <(compgen -d -- "$path")
			;;
		:commands)
			while read -r value; do COMPREPLY+=("$value"); done < <(compgen -c -- "$path" | sort -u)
			;;
		*) COMPREPLY+=("${value#"$before"}") ;;
		esac
	done < <("${COMP_WORDS[0]}" completion words "${typed[@]:1}" 2>/dev/null)
	case ${COMPREPLY[0]-} in *= | *,) compopt -o nospace 2>/dev/null ;; esac
}
complete -F _ibrun ibrun
`

// zshScript completes in zsh. compadd gets the candidates with their descriptions.
const zshScript = `#compdef ibrun
# zsh completion of ibrun. Written by: ibrun completion zsh

_ibrun() {
	local line value found=1
	local -a values shown
	for line in "${(@f)$("${words[1]}" completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		value=${line%%$'\t'*}
		case $value in
		:files) compset -P '-*='; _files && found=0 ;;
		:directories) compset -P '-*='; _files -/ && found=0 ;;
		:commands) compset -P '-*='; _command_names -e && found=0 ;;
		'') ;;
		*)
			values+=("$value")
			shown+=("${line/$'\t'/  }")
			;;
		esac
	done
	(( $#values )) && compadd -l -d shown -a values && found=0
	return found
}
if (( $+functions[compdef] )); then
	compdef _ibrun ibrun
fi
`

// fishScript completes in fish.
const fishScript = `# fish completion of ibrun. Written by: ibrun completion fish

function __ibrun_complete
	set -l words (commandline -opc)
	set -l current (commandline -ct)
	set -l command $words[1]
	set -e words[1]
	set -l path (string replace -r -- '^-[^=]*=' '' "$current")
	set -l before (string match -r -- '^-[^=]*=' "$current")
	for line in ($command completion words $words "$current" 2>/dev/null)
		switch $line
			case ':files'
				for file in (__fish_complete_path "$path")
					echo "$before$file"
				end
			case ':directories'
				for file in (__fish_complete_directories "$path")
					echo "$before$file"
				end
			case ':commands'
				complete -C "$path"
			case '*'
				echo $line
		end
	end
end
complete -c ibrun -f -a '(__ibrun_complete)'
`
