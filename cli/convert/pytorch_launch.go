package convert

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// setLaunch sets torchrunConfig and elastic if all replicas run torchrun in a way that these fields can express.
// Otherwise, the replicas keep their commands.
func (p *pyTorch) setLaunch() error {
	var first *launch
	reasons := make([]error, len(p.replicas))
	programs := make([][]string, len(p.replicas))
	var superseded []string
	canMap := true
	for i, r := range p.replicas {
		l, err := p.launchOf(r.mainContainer())
		if err == nil && first != nil && !l.isSame(first) {
			err = errDifferent
		}
		if reasons[i] = err; err != nil {
			canMap = false
			continue
		}
		if first == nil {
			first = l
		}
		programs[i] = l.program
		for _, flag := range l.superseded {
			if !slices.Contains(superseded, flag) {
				superseded = append(superseded, flag)
			}
		}
	}
	if !canMap {
		for i := range reasons {
			if reasons[i] == nil {
				reasons[i] = errDifferent
			}
		}
		p.keepCommands(reasons)
		return nil
	}
	for i, r := range p.replicas {
		main := r.mainContainer()
		field := r.mainField() + ".args"
		if len(main.Command) > 0 && slices.Contains(main.Command, programs[i][0]) {
			field = r.mainField() + ".command"
		}
		p.move(field, r.mainResult()+".args")
		main.Command, main.Args = nil, programs[i]
	}
	first.superseded = superseded
	return p.setTorchrun(first)
}

// errDifferent means that the types of replicas run torchrun with different flags. All types share one
// torchrunConfig, so it cannot express these flags.
var errDifferent = errors.New("the types of replicas do not run torchrun with the same flags")

// errImage means that the manifest does not show the command.
var errImage = errors.New("the image has the command")

// worldSize refers to the variable WORLD_SIZE. Kubeflow sets it to the number of replicas, multiplied by nprocPerNode
// if nprocPerNode is a number. The pytorch-controller sets it to the number of replicas.
const worldSize = "$(WORLD_SIZE)"

// launchOf parses the command line of a main container. The error is the reason why torchrunConfig cannot express it.
func (p *pyTorch) launchOf(main *corev1.Container) (*launch, error) {
	if len(main.Command) == 0 {
		return nil, errImage // args can be arguments of any program
	}
	words := slices.Concat(main.Command, main.Args)
	l, err := parseTorchrun(words)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, variable := range main.Env {
		if variable.ValueFrom == nil && !hasReference([]string{variable.Value}) {
			values[variable.Name] = variable.Value
		}
	}
	l.expand(values)
	if _, isShell := scriptOf(words); isShell && l.needsShell() {
		return nil, errScript
	}
	return l, nil
}

// procPerNode matches the valid values of torchrunConfig.procPerNode.
var procPerNode = regexp.MustCompile(`^([1-9][0-9]*|cpu|gpu|xpu|npu|auto)$`)

// setTorchrun sets torchrunConfig and elastic from the flags of torchrun and from the spec. Flags override the spec,
// as with Kubeflow, which passes the spec to torchrun in variables.
func (p *pyTorch) setTorchrun(l *launch) error {
	const result = "spec.torchrunConfig"
	config := &pytorchv1beta1.TorchrunConfig{Enabled: true, ExtraOptions: l.options}
	p.job.Spec.TorchrunConfig = config
	command := p.replicas[0].mainField() + ".command"
	if l.launcher != "torchrun" {
		text := "The controller runs torchrun, which must be in the PATH of the image."
		if l.passesLocalRank {
			text += " It does not pass --local-rank to the script, which must read the variable LOCAL_RANK instead."
		}
		p.changed(command, l.launcher, result+".enabled", text)
	}
	if p.spec.ElasticPolicy != nil {
		if err := p.setElastic(); err != nil {
			return err
		}
	}
	p.setProcs(config, l)
	p.setNodes(config, l)
	p.setRestarts(config, l)
	p.setRendezvous(config, l)
	if l.standalone {
		if p.total() == 1 && p.job.Spec.Elastic == nil {
			l.superseded = append(l.superseded, "--standalone")
		} else {
			config.ExtraOptions = append(config.ExtraOptions, "--standalone")
			p.changed(command, "--standalone", result+".extraOptions", "Each replica trains alone.")
		}
	}
	p.remarkOnVariables()
	p.notMappedIfSet(command, strings.Join(l.superseded, " "), result, "The controller sets the rendezvous. "+
		"It is at the address of the leader, and each attempt has a separate id.")
	return nil
}

// setProcs sets the number of processes of each replica.
func (p *pyTorch) setProcs(config *pytorchv1beta1.TorchrunConfig, l *launch) {
	const result = "spec.torchrunConfig.procPerNode"
	field, procs, isSet := "spec.nprocPerNode", p.procs(), p.spec.NprocPerNode != ""
	if policy := p.spec.ElasticPolicy; policy != nil && policy.NProcPerNode != nil {
		if isSet {
			p.notMapped(field, p.spec.NprocPerNode, result, "elasticPolicy.nProcPerNode overrides it.")
		}
		field, isSet = "spec.elasticPolicy.nProcPerNode", true
	}
	p.move(field, result)
	switch {
	case l.procs != "":
		if isSet && l.procs != procs {
			p.notMapped(field, procs, result, "The flag --nproc_per_node of the command overrides it.")
		}
		procs = l.procs
	case !isSet:
		p.byDefault(field, procs, result, "The default here is the one of torchrun, 1.")
	}
	if procPerNode.MatchString(procs) {
		config.ProcPerNode = procs
	} else {
		config.ExtraOptions = append(config.ExtraOptions, "--nproc_per_node="+procs)
	}
}

// setNodes keeps the flag --nnodes of torchrun, unless its value is $(WORLD_SIZE) or equals the value that the
// controller sets.
func (p *pyTorch) setNodes(config *pytorchv1beta1.TorchrunConfig, l *launch) {
	const result = "spec.torchrunConfig"
	command := p.replicas[0].mainField() + ".command"
	total := strconv.Itoa(int(p.total()))
	usual := []string{total, total + ":" + total, ""}
	if elastic := p.job.Spec.Elastic; elastic != nil {
		usual = []string{fmt.Sprintf("%d:%d", elastic.Least(), elastic.Most()), ""}
	}
	size := total
	if procs, err := strconv.Atoi(p.spec.NprocPerNode); err == nil {
		size = strconv.Itoa(int(p.total()) * procs)
	}
	nodes := strings.ReplaceAll(l.nodes, worldSize, size)
	switch {
	case slices.Contains(usual, nodes):
	case l.nodes == worldSize:
		p.notMapped(command, "--nnodes="+l.nodes, result,
			"The controller sets --nnodes="+usual[0]+", and not the WORLD_SIZE of Kubeflow.")
	default:
		config.ExtraOptions = append(config.ExtraOptions, "--nnodes="+nodes)
		p.changed(command, "--nnodes="+nodes, result+".extraOptions",
			"The flag overrides --nnodes="+usual[0]+", which the controller sets.")
	}
}

// elasticRestarts is the value of maxRestarts in an elastic job if the manifest sets 0 or nothing.
const elasticRestarts = 10

// setRestarts sets how often torchrun restarts the processes of a replica.
func (p *pyTorch) setRestarts(config *pytorchv1beta1.TorchrunConfig, l *launch) {
	const field, result = "spec.elasticPolicy.maxRestarts", "spec.torchrunConfig.maxRestarts"
	if policy := p.spec.ElasticPolicy; policy != nil && policy.MaxRestarts != nil {
		config.MaxRestarts = policy.MaxRestarts
		p.move(field, result)
	}
	if l.maxRestarts != "" {
		p.notMappedIfSet(field, config.MaxRestarts, result, "The flag --max_restarts of the command overrides it.")
		restarts, err := strconv.ParseInt(l.maxRestarts, 10, 32)
		if err != nil {
			config.ExtraOptions = append(config.ExtraOptions, "--max_restarts="+l.maxRestarts)
			return
		}
		config.MaxRestarts = new(int32(restarts))
	}
	if p.job.Spec.Elastic != nil && ptr.Deref(config.MaxRestarts, 0) < 1 {
		p.changed(field, ptr.Deref(config.MaxRestarts, 0), result,
			"Elastic training needs at least 1. Each change of the number of replicas can use up one.")
		config.MaxRestarts = ptr.To[int32](elasticRestarts)
	}
}

// setRendezvous sets the rendezvous backend and its options.
func (p *pyTorch) setRendezvous(config *pytorchv1beta1.TorchrunConfig, l *launch) {
	const field, result = "spec.elasticPolicy", "spec.torchrunConfig"
	policy := ptr.Deref(p.spec.ElasticPolicy, elasticPolicy{})
	p.move(field+".rdzvBackend", result+".rdzvBackend")
	config.RdzvBackend = cmp.Or(l.backend, policy.RDZVBackend)
	if config.RdzvBackend == "static" {
		p.changed(p.replicas[0].mainField()+".command", "static", result+".rdzvBackend",
			"The replicas meet with the backend c10d, which numbers them by the names of their pods.")
		config.RdzvBackend = ""
	}
	switch endpoint := cmp.Or(l.endpoint, p.endpoint()); {
	case cmp.Or(config.RdzvBackend, c10d) != c10d:
		config.ExtraOptions = append(config.ExtraOptions, "--rdzv_endpoint="+endpoint)
		p.move(field+".rdzvHost", result+".extraOptions")
	case l.endpoint != "":
		l.superseded = append(l.superseded, "--rdzv_endpoint="+l.endpoint)
		fallthrough
	default:
		if policy.RDZVHost != "" {
			p.notMapped(field+".rdzvHost", policy.RDZVHost, result, "The leader hosts the rendezvous.")
			p.notMappedIfSet(field+".rdzvPort", policy.RDZVPort, result, "The leader hosts the rendezvous at MASTER_PORT.")
		}
	}
	p.notMappedIfSet(field+".rdzvId", policy.RDZVID, result, "Each attempt of the job has a separate id.")
	if len(policy.RDZVConf) > 0 {
		if l.hasConf {
			p.notMapped(field+".rdzvConf", policy.RDZVConf, result+".extraOptions",
				"The flag --rdzv_conf of the command overrides it.")
		} else {
			config.ExtraOptions = append(config.ExtraOptions, "--rdzv_conf="+policy.conf())
			p.move(field+".rdzvConf", result+".extraOptions")
		}
	}
	p.notMappedIfSet(field+".standalone", policy.Standalone, result,
		"The replicas of a job always meet. A job of one replica needs no special setting.")
}

// setElastic sets the limits of an elastic job.
func (p *pyTorch) setElastic() error {
	const field, result = "spec.elasticPolicy", "spec.elastic"
	worker := p.replicasOf("worker")
	if worker == nil {
		return errors.New("spec.elasticPolicy needs replicas of the type Worker")
	}
	least, most := p.limits()
	expected := min(max(p.total(), least), most)
	p.job.Spec.Elastic = &batchv1beta1.ElasticConfig{
		Enabled: true, MinReplicas: &least, MaxReplicas: &most, ExpectedReplicas: &expected,
	}
	p.move(field+".minReplicas", result+".minReplicas")
	p.move(field+".maxReplicas", result+".maxReplicas")
	p.move(worker.field+".replicas", result+".expectedReplicas")
	if expected != p.total() {
		p.changed(worker.field+".replicas", p.total(), result+".expectedReplicas",
			"It must be from minReplicas to maxReplicas.")
	}
	return nil
}
