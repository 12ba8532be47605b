package convert

import (
	"fmt"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

// deepSpeedText matches texts that show that a program trains with DeepSpeed.
var deepSpeedText = regexp.MustCompile(`(?i)deep_?speed|\bds_config`)

// hostfiles matches the path of the hostfile of MPIJobs.
var hostfiles = regexp.MustCompile(`/etc/mpi/hostfile\b`)

// setConfig sets the config of the job from the command of the launcher. The config describes the program and its
// launch.
func (m *mpi) setConfig(isDeepSpeed bool) error {
	main := m.launcher.mainContainer()
	words := slices.Concat(main.Command, main.Args)
	if len(words) == 0 {
		return fmt.Errorf("%s has no command: set the one of its image", m.launcher.mainField())
	}
	for _, list := range []string{"python", "module", "exec"} {
		m.move(m.commandField(), "spec.config.run."+list)
	}
	if script, isShell := scriptOf(words); isShell {
		plain, ok := plainWords(script)
		if !ok || hasReference(plain) {
			return m.setScript(words, script)
		}
		words = plain
	}
	if rest, ok := deepSpeedOf(words); ok {
		m.setDeepSpeed(words, rest)
		return nil
	}
	if !mpiLaunchers.MatchString(path.Base(words[0])) {
		return fmt.Errorf("its launcher runs %s: only programs that mpirun, mpiexec or deepspeed launches, and that train "+
			"with DeepSpeed, have a counterpart; %s", words[0], mpiGuide)
	}
	run, err := parseMPIRun(words[1:])
	if err != nil {
		return err
	}
	for _, r := range []*replicas{m.launcher, m.worker} {
		for text := range textsOf(r.mainContainer()) {
			isDeepSpeed = isDeepSpeed || deepSpeedText.MatchString(text.value)
		}
	}
	if !isDeepSpeed {
		return fmt.Errorf("nothing shows that its program %q trains with DeepSpeed, and other MPI programs have no "+
			"counterpart: let mpi-operator run them. If it trains with DeepSpeed, use the flag --deepspeed; %s",
			valueOf(quoted(run.program)), mpiGuide)
	}
	m.setMPIRun(run)
	return nil
}

// mpiLaunchers matches the names of the programs that launch MPI programs.
var mpiLaunchers = regexp.MustCompile(`^(mpirun|mpiexec(\.hydra)?|orterun)$`)

// commandField returns the path of the field that has the program: args of the launcher, or command if args is empty.
func (m *mpi) commandField() string {
	if len(m.launcher.mainContainer().Args) > 0 {
		return m.launcher.mainField() + ".args"
	}
	return m.launcher.mainField() + ".command"
}

// deepSpeedOf returns the words after the launcher deepspeed, and whether the command begins with this launcher.
func deepSpeedOf(words []string) (rest []string, isLauncher bool) {
	if path.Base(words[0]) == "deepspeed" {
		return words[1:], true
	}
	if len(words) > 3 && python.MatchString(path.Base(words[0])) && words[1] == "-m" &&
		(words[2] == "deepspeed" || words[2] == "deepspeed.launcher.runner") {
		return words[3:], true
	}
	return nil, false
}

// customHostfile is the path of the hostfile of a DeepSpeedJob.
const customHostfile = "/t9k/hostfile"

// setScript sets the custom command of the job to the shell script that the launcher runs. It returns an error if the
// script does not run deepspeed, or runs a launcher that needs MPI.
func (m *mpi) setScript(words []string, script string) error {
	if otherLaunchers.MatchString(script) || !strings.Contains(script, "deepspeed") {
		return fmt.Errorf("its launcher runs a shell script that is more than a plain command. If it trains with "+
			"DeepSpeed, write a DeepSpeedJob whose config.run has the program, without mpirun and its flags. Other MPI "+
			"programs, such as NCCL tests, have no counterpart: let mpi-operator run them; %s", mpiGuide)
	}
	if path.Base(words[0]) != "sh" || words[1] != "-c" {
		script = quoted(words)
	}
	m.setCustomCommand(script, "The script is more than a plain command. Worker 0 runs it.")
	return nil
}

// otherLaunchers matches the names of launchers that need MPI, within a script.
var otherLaunchers = regexp.MustCompile(`\b(mpirun|mpiexec|orterun|horovodrun)\b`)

// setCustomCommand sets the custom command of the job, which worker 0 runs. The parameter text explains the change to
// the user.
func (m *mpi) setCustomCommand(command, text string) {
	m.config = &deepspeedv1beta1.Config{CustomCommand: hostfiles.ReplaceAllString(command, customHostfile)}
	m.changed(m.commandField(), "", "spec.config.customCommand", text+
		" The hostfile is "+customHostfile+". deepspeed needs the flag --hostfile for it.")
	m.addVariables(nil, func(string) bool { return true })
}

// setDeepSpeed sets the program that the launcher deepspeed runs, and the flags of deepspeed. If the flags cannot be
// parsed, the whole command becomes the custom command of the job.
func (m *mpi) setDeepSpeed(words, rest []string) {
	config, superseded, err := parseDeepSpeed(rest)
	if err != nil {
		m.setCustomCommand(quoted(words), "The command is kept, because "+err.Error()+".")
		return
	}
	m.config = config
	if len(superseded) > 0 {
		text := "The controller sets the hostfile, the address of the leader and the ssh connections."
		flags := strings.Join(superseded, " ")
		if strings.Contains(flags, "elastic") {
			text += " spec.elastic makes a job elastic."
		}
		m.notMapped(m.commandField(), flags, "spec.config", text)
	}
	m.addVariables(nil, func(name string) bool { return exportedByDeepSpeed.MatchString(name) })
}

// exportedByDeepSpeed matches the variables that the launcher deepspeed passes to all processes.
var exportedByDeepSpeed = regexp.MustCompile(`^(MLFLOW|NCCL|PYTHON|MV2|UCX)`)

// setMPIRun sets the config of the job from a command line of mpirun.
func (m *mpi) setMPIRun(run *mpirun) {
	m.config = &deepspeedv1beta1.Config{Run: runOf(run.program), LocalRank: new(bool)}
	m.changed(m.commandField(), "mpirun", "spec.config", "deepspeed launches the program, with pdsh. "+
		"The image of the workers must contain both. It needs neither MPI nor an ssh server.")
	m.changed(m.commandField(), "mpirun", "spec.config.localRank",
		"deepspeed passes --local_rank to the program unless localRank is false. mpirun does not.")
	slots := ptr.Deref(m.spec.SlotsPerWorker, 1)
	if total := strconv.Itoa(int(m.workers * slots)); run.processes != "" && run.processes != total {
		m.changed(m.commandField(), run.processes+" processes", "spec.config.slotsPerWorker",
			"The training has one process for each slot of each worker, in total "+total+".")
	}
	if perNode := strconv.Itoa(int(slots)); run.perNode != "" && run.perNode != perNode {
		m.changed(m.commandField(), run.perNode+" processes for each worker", "spec.config.slotsPerWorker",
			"Each worker has one process for each slot, so "+perNode+".")
	}
	m.notMappedIfSet(m.commandField(), strings.Join(run.others, " "), "spec.config", "These are flags of MPI.")
	m.addVariables(run.variables, func(name string) bool { return run.exportsAll || slices.Contains(run.exported, name) })
}

// runOf returns the field run of the config for a command line. If the command line is python with a script, or with
// -m and a module, the field has the script or the module. Otherwise, for example if python has other flags than -u
// or is named by a path, the field has the whole command line as an executable.
func runOf(program []string) *deepspeedv1beta1.RunType {
	if !python.MatchString(program[0]) {
		return &deepspeedv1beta1.RunType{Exec: program}
	}
	rest := program[1:]
	if len(rest) > 0 && rest[0] == "-u" { // deepspeed itself passes -u to Python
		rest = rest[1:]
	}
	switch {
	case len(rest) > 1 && rest[0] == "-m":
		return &deepspeedv1beta1.RunType{Module: rest[1:]}
	case len(rest) > 0 && !strings.HasPrefix(rest[0], "-"):
		return &deepspeedv1beta1.RunType{Python: rest}
	}
	return &deepspeedv1beta1.RunType{Exec: program}
}

// addVariables adds two groups of variables to the workers. The first group has the variables that the flags of the
// launch command set for all processes. The second group is from the env of the launcher's container. It has the
// variables that the launch command exports to the processes or refers to.
func (m *mpi) addVariables(variables []corev1.EnvVar, exports func(name string) bool) {
	worker := m.worker.mainContainer()
	for _, variable := range variables {
		worker.Env = append(withoutVariable(worker.Env, variable.Name), variable)
	}
	if !m.hasOwnWorkers() {
		return
	}
	launcher := m.launcher.mainContainer()
	words := strings.Join(slices.Concat(launcher.Command, launcher.Args), " ")
	for i, variable := range launcher.Env {
		if slices.ContainsFunc(worker.Env, func(e corev1.EnvVar) bool { return reflect.DeepEqual(e, variable) }) {
			continue
		}
		field := fmt.Sprintf("%s.env[%d]", m.launcher.mainField(), i)
		if !exports(variable.Name) && !strings.Contains(words, "$("+variable.Name+")") {
			m.notMapped(field, variable.Name, m.worker.mainResult()+".env",
				"The launcher does not pass this variable to the training, so the workers do not have it.")
			continue
		}
		before := len(worker.Env)
		worker.Env = append(withoutVariable(worker.Env, variable.Name), variable)
		at := fmt.Sprintf("%s.env[%d]", m.worker.mainResult(), len(worker.Env)-1)
		m.move(field, at)
		if len(worker.Env) == before {
			m.changed(field, variable.Name, at, "It replaces the variable of the workers.")
		}
	}
}

// withoutVariable returns the environment without a variable.
func withoutVariable(env []corev1.EnvVar, name string) []corev1.EnvVar {
	return slices.DeleteFunc(env, func(e corev1.EnvVar) bool { return e.Name == name })
}
