package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/mod/sumdb/dirhash"

	"tensorstack.dev/jobs/test/localcluster"
	"tensorstack.dev/jobs/test/upgrade"
)

// The version before is built from its source. What a change of version may do to jobs is the same in both directions:
// nothing.
var _ = Describe("A change of version", Label("upgrade"), Serial, Ordered, ContinueOnFailure, func() {
	var before, tree version
	all := []controller{"pytorch", "tensorflow", "deepspeed", "tensorboard", "scheduler"}

	BeforeAll(func(ctx context.Context) {
		cluster := localClusterOrSkip("the version before is an image that only the local cluster gets")
		tree = version{name: "this version", source: root, manifests: "deploy"}
		before = buildBefore(ctx, cluster, all)
		DeferCleanup(func(ctx context.Context) { tree.install(ctx, all...) })
	}, NodeTimeout(30*time.Minute))

	DescribeTable("leaves jobs as they are, and goes on with them",
		func(ctx context.Context, versions func() (from, to version)) {
			from, to := versions()
			from.install(ctx, all...)
			paused := startWaiting(ctx)
			paused.waits(ctx)
			paused.pause(ctx, true)
			paused.eachIs(ctx, "Paused")
			running := startWaiting(ctx)
			running.waits(ctx)
			running.fails(ctx, "pytorch")
			running.haveFailed(ctx, map[string]int{"pytorch": 1, "tensorflow": 0, "deepspeed": 0})
			were := []string{running.objects(ctx), paused.objects(ctx)}

			to.install(ctx, all...)
			for _, c := range all {
				c.hasSeenAll(ctx)
			}
			are := []string{running.objects(ctx), paused.objects(ctx)}
			Expect(cmp.Diff(were, are)).To(BeEmpty(),
				"nothing is written: no job, group, TensorBoard, pod, Service or Secret is another")

			running.fails(ctx, "pytorch")
			running.fails(ctx, "deepspeed")
			running.ends(ctx)
			running.haveFailed(ctx, map[string]int{"pytorch": 2, "tensorflow": 0, "deepspeed": 1})
			paused.pause(ctx, false)
			paused.waits(ctx)
			paused.ends(ctx)
		},
		Entry("from the version before to this one", func() (from, to version) { return before, tree },
			SpecTimeout(30*time.Minute)),
		Entry("from this version back to the one before", func() (from, to version) { return tree, before },
			SpecTimeout(30*time.Minute)),
	)

	It("is made as the document shows", func(ctx context.Context) {
		before.install(ctx, "pytorch")
		newNamespace(ctx).follow(ctx, "docs/upgrading.md", "How to upgrade")
	})

	It("is taken back as the document shows if leaders are held", Label("hold"), func(ctx context.Context) {
		tree.install(ctx, "pytorch")
		controllersNamespace.kubectl(ctx, "patch", "deployment/pytorch-controller", "--type=json", "-p", holdLeaders)
		controllersNamespace.kubectl(ctx, "rollout", "status", "deployment/pytorch-controller", patience)
		Eventually(ctx, controllersNamespace.pods(ctx)).Should(HaveLen(1))
		n := startWaitingAlone(ctx)
		n.isHeld(ctx)

		n.follow(ctx, "docs/upgrading.md", "The way back if leaders are held")
		before.install(ctx, "pytorch")
		n.kubectl(ctx, "delete", "ptjob", "alone")
		Eventually(ctx, n.names(ctx, "pods")).Should(BeEmpty(), "no pod stays Terminating")
	})

	It("need not be made for all controllers at once: each has the common of its own", func(ctx context.Context) {
		if before.common() == tree.common() {
			Skip("common of " + before.name + " is that of the tree: nothing would be seen")
		}
		before.install(ctx, "pytorch", "tensorboard")
		tree.install(ctx, "tensorflow", "deepspeed", "scheduler")
		n := startWaiting(ctx)
		n.waits(ctx)
		n.fails(ctx, "pytorch")
		n.fails(ctx, "tensorflow")
		n.ends(ctx)
		n.haveFailed(ctx, map[string]int{"pytorch": 1, "tensorflow": 1, "deepspeed": 0})
	})
})

// version is one that controllers can be installed of.
type version struct {
	name string
	// source is the root of its repository.
	source string
	// manifests is the folder that has a kustomization for each controller, seen from the root of the tree.
	manifests string
}

// buildBefore builds the controllers of the version before, each with the common of that version, into images of
// another tag, and loads those into the node.
func buildBefore(ctx context.Context, cluster *localcluster.Cluster, controllers []controller) version {
	GinkgoHelper()
	const tag = "upgrades-from"
	source := GinkgoT().TempDir()
	name, err := upgrade.WritePrevious(ctx, root, source)
	if errors.Is(err, upgrade.ErrSkipped) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	v := version{name: name, source: source, manifests: filepath.Join(source, "deploy-"+tag)}
	for _, c := range controllers {
		image := "tensorstack/" + c.name()
		loadBuilt(ctx, cluster, source, "./"+string(c)+"/cmd/"+c.name(), image+":"+tag)
		folder := filepath.Join(v.manifests, c.base())
		Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
		base, err := filepath.Rel(folder, filepath.Join(source, "deploy", c.base()))
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), fmt.Appendf(nil,
			"resources: [%s]\nimages: [{name: %s, newTag: %s}]\n", base, image, tag), 0o600)).To(Succeed())
	}
	return v
}

// install installs controllers of the version as a user would, over whichever was there.
func (v version) install(ctx context.Context, controllers ...controller) {
	GinkgoHelper()
	for _, c := range controllers {
		By(fmt.Sprintf("installing the %s of %s", c.name(), v.name))
		_, err := kubectl(ctx, "apply", "-k", filepath.Join(v.manifests, c.base()))
		Expect(err).NotTo(HaveOccurred())
	}
	for _, c := range controllers {
		n := c.namespace()
		n.kubectl(ctx, "rollout", "status", "deployment/"+c.name(), patience)
		Eventually(ctx, n.pods(ctx)).Should(HaveLen(1), "the pod of the former version is gone")
	}
}

// common tells the sources of common apart by their hash, that which the checksum database has of a module.
func (v version) common() string {
	GinkgoHelper()
	hash, err := dirhash.HashDir(filepath.Join(v.source, "common"), "common", dirhash.Hash1)
	Expect(err).NotTo(HaveOccurred())
	return hash
}

// controller is one of the controllers, by its module.
type controller string

func (c controller) name() string { return string(c) + "-controller" }

func (c controller) namespace() namespace { return namespace("t9k-" + c) }

// base is the folder in deploy/ that it is installed from.
func (c controller) base() string {
	if c == "scheduler" {
		return "scheduler/native"
	}
	return string(c)
}

// kind is that of the objects which it looks at one by one.
func (c controller) kind() string {
	return map[controller]string{
		"pytorch": "ptjob", "tensorflow": "tfjob", "deepspeed": "dsjob", "tensorboard": "tb",
		"scheduler": "queues.scheduler.tensorstack.dev",
	}[c]
}

var (
	reconciled = regexp.MustCompile(`(?m)^controller_runtime_reconcile_total\{.*\} (\d+)$`)
	unfinished = regexp.MustCompile(`(?m)^(?:workqueue_depth|controller_runtime_active_workers)\{.*\} (\d+)$`)
)

// hasSeenAll waits until the controller leads and has reconciled as often as it has objects at least, with nothing left
// to do.
func (c controller) hasSeenAll(ctx context.Context) {
	GinkgoHelper()
	objects, err := kubectl(ctx, "get", c.kind(), "--all-namespaces", "-o", "name")
	Expect(err).NotTo(HaveOccurred())
	n := c.namespace()
	pod := now(n.output(ctx, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}"))
	Eventually(ctx,
		n.output(ctx, "get", "lease", c.name(), "-o", "jsonpath={.spec.holderIdentity}")).Should(HavePrefix(pod + "_"))
	Eventually(ctx, func(g Gomega) {
		metrics, err := kubectl(ctx, "get", "--raw", "/api/v1/namespaces/"+string(n)+"/pods/"+pod+":8080/proxy/metrics")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(sum(metrics, reconciled)).To(BeNumerically(">=", len(strings.Fields(objects))))
		g.Expect(sum(metrics, unfinished)).To(BeZero())
	}).Should(Succeed())
}

// sum adds up the samples of the metrics that match.
func sum(metrics string, samples *regexp.Regexp) int {
	total := 0
	for _, sample := range samples.FindAllStringSubmatch(metrics, -1) {
		value, _ := strconv.Atoi(sample[1])
		total += value
	}
	return total
}

// jobKinds are the kinds of jobs.
const jobKinds = "ptjob,tfjob,dsjob"

// startWaiting creates a job of each kind that waits until it is told to end, in a namespace of their own. One is a
// gang of a queue and has a TensorBoard.
func startWaiting(ctx context.Context) namespace {
	GinkgoHelper()
	n := newNamespace(ctx)
	n.volume(ctx, "logs")
	content, err := os.ReadFile("testdata/waiting.yaml")
	Expect(err).NotTo(HaveOccurred())
	n.kubectlWith(ctx, strings.ReplaceAll(string(content), "QUEUE", string(n)), "apply", "-f", "-")
	DeferCleanup(func(ctx context.Context) { n.kubectl(ctx, "delete", "queue.scheduler.tensorstack.dev", string(n)) })
	return n
}

// waits until all replicas of the jobs run and the status has nothing more to say of them.
func (n namespace) waits(ctx context.Context) {
	GinkgoHelper()
	n.eachIs(ctx, "Running", "Running", "Running")
	n.kubectl(ctx, "wait", "--for=jsonpath={.status.tensorboard.ready}=true", "ptjob/pytorch", patience)
	n.kubectl(ctx, "wait", "--for=jsonpath={.status.running}=2", "podgroup.scheduler.tensorstack.dev/pytorch", patience)
}

// eachIs waits until the phase of each job, and the states of its replicas' containers, are these.
func (n namespace) eachIs(ctx context.Context, phase string, states ...string) {
	GinkgoHelper()
	for _, job := range now(n.names(ctx, jobKinds)) {
		Eventually(ctx,
			n.output(ctx, "get", job, "-o", "jsonpath={.status.phase} {.status.tasks[*].replicas[*].containers[*].state}")).
			Should(WithTransform(strings.Fields, Equal(append([]string{phase}, states...))), job)
	}
}

// pause pauses the jobs, or resumes them.
func (n namespace) pause(ctx context.Context, paused bool) {
	GinkgoHelper()
	for _, job := range now(n.names(ctx, jobKinds)) {
		n.kubectl(ctx, "patch", job, "--type=merge", "-p",
			fmt.Sprintf(`{"spec": {"runMode": {"pause": {"enabled": %t}}}}`, paused))
	}
}

// fails lets the leader of a job fail, and waits until all its replicas have been restarted.
func (n namespace) fails(ctx context.Context, job string) {
	GinkgoHelper()
	leader := now(n.replicas(ctx))[job+"-worker-0"]
	n.kubectl(ctx, "exec", job+"-worker-0", "-c", "main", "--", "touch", "/tmp/broken")
	Eventually(ctx, n.pods(ctx)).ShouldNot(ContainElement(leader.uid))
	n.waits(ctx)
}

// haveFailed expects each job to have counted so many failures, of its leader.
func (n namespace) haveFailed(ctx context.Context, times map[string]int) {
	GinkgoHelper()
	for _, job := range now(n.names(ctx, jobKinds)) {
		_, name, _ := strings.Cut(job, "/")
		Eventually(
			ctx,
			n.output(ctx, "get", job, "-o", "jsonpath={.status.backoffCount}"),
		).Should(Equal(strconv.Itoa(times[name])), job)
		failure := HavePrefix(name + "-worker-0 Error 1 counted=true on ")
		Eventually(ctx, n.failures(ctx, job)).Should(HaveExactElements(slices.Repeat([]any{failure}, times[name])...), job)
	}
}

// ends tells all replicas to end, and waits until the jobs have succeeded.
func (n namespace) ends(ctx context.Context) {
	GinkgoHelper()
	for name := range now(n.replicas(ctx)) {
		if strings.Contains(name, "-worker-") {
			n.kubectl(ctx, "exec", name, "-c", "main", "--", "touch", "/tmp/enough")
		}
	}
	for _, job := range now(n.names(ctx, jobKinds)) {
		n.kubectl(ctx, "wait", "--for=jsonpath={.status.phase}=Succeeded", job, patience)
	}
}

// onlyInNewCRDs matches what the API server shows by the CRDs of this version alone, without a write of the object.
var onlyInNewCRDs = regexp.MustCompile(`(?m)^ +(?:(?:metadata|resources): {}|(?:rank|scheduledTime): .*)\n`)

// objects returns the jobs and what they own, as they are stored: any write to one of them makes it another. Of pods it
// returns what is not the kubelet's, which writes their status now and then, and which containers run, so that one that
// restarts is another.
func (n namespace) objects(ctx context.Context) string {
	GinkgoHelper()
	stored := now(n.output(ctx, "get",
		jobKinds+",tb,podgroups.scheduler.tensorstack.dev,podgroups.scheduling.k8s.io,services,secrets",
		"--show-managed-fields", "-o", "yaml"))
	return onlyInNewCRDs.ReplaceAllString(stored, "") + "\n" +
		now(n.output(ctx, "get", "pods", "-o",
			`jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.labels} {.metadata.annotations}`+
				` {.metadata.ownerReferences} {.spec} {.status.containerStatuses[*].containerID} {.status.initContainerStatuses[*].containerID}{"\n"}{end}`))
}

// localClusterOrSkip returns the local cluster. It skips the test on any other, and says why.
func localClusterOrSkip(reason string) *localcluster.Cluster {
	GinkgoHelper()
	paths, err := localcluster.DefaultPaths()
	Expect(err).NotTo(HaveOccurred())
	if os.Getenv("KUBECONFIG") != paths.Kubeconfig() {
		Skip(reason)
	}
	repo, err := filepath.Abs(root)
	Expect(err).NotTo(HaveOccurred())
	return localcluster.New(repo, localcluster.DefaultKubernetes, paths, localcluster.NewProgress(GinkgoWriter))
}

// loadBuilt builds a program of a source tree into an image whose last name is that of the program, and loads that into
// the node.
func loadBuilt(ctx context.Context, cluster *localcluster.Cluster, source, program, image string) {
	GinkgoHelper()
	folder, packed := GinkgoT().TempDir(), GinkgoT().TempDir()
	archive := filepath.Join(packed, "image.tar")
	for _, build := range []struct {
		folder, environment string
		args                []string
	}{
		{
			source, "CGO_ENABLED=0",
			[]string{"build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(folder, filepath.Base(program)), program},
		},
		{filepath.Join(root, "hack/tools"), "GOWORK=off", []string{
			"run", "./image", "-name", image, "-folders", "linux/" + runtime.GOARCH + "=" + folder,
			"-layout", filepath.Join(packed, "layout"), "-archive", archive,
		}},
	} {
		command := exec.CommandContext(ctx, "go", build.args...)
		command.Dir = build.folder
		command.Env = append(os.Environ(), build.environment)
		output, err := command.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s", output)
	}
	Expect(cluster.LoadImages(ctx, archive)).To(Succeed())
}
