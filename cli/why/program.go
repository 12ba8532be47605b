package why

import "regexp"

// notFound matches the message about a program that is not in the PATH of a container.
var notFound = regexp.MustCompile(`exec: "([^"]+)": executable file not found in \$PATH`)

// doAboutProgram returns the advice about a program that cannot run. The parameter do is the usual advice. If the
// message reports that the program is not in the PATH of the container, a sentence about the PATH follows. If the
// program is torchrun and the controller runs it, the usual advice is left out, because the template does not name
// torchrun.
func (v view) doAboutProgram(message, do string) string {
	const entrypoint = "The entrypoint of the image does not run, so a PATH that only it sets has no effect."
	found := notFound.FindStringSubmatch(message)
	switch {
	case found == nil:
		return do
	case found[1] == "torchrun" && v.Job.RunsTorchrun():
		return "The controller runs torchrun, so the command in the template is not the cause. The image must have " +
			"torchrun in the PATH of its environment (ENV). " + entrypoint +
			" Or remove torchrunConfig, and set the command in the template."
	default:
		return sentences(do, entrypoint)
	}
}
