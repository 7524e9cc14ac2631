// Package completion is ibrun completion: it prints the scripts by which bash, zsh and fish complete command lines of ibrun,
// and the candidates for which these scripts ask.
//
// A script contains no flags. It passes the words before the cursor to "ibrun completion words WORD...", which
// prints a candidate per line: the word, a tab, and a description. The lines :files, :directories and :commands ask the
// shell for its own candidates. Thus flags, their values and the names of hosts are known only here.
package completion
