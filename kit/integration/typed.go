package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/suite"
)

// template is a pod template in YAML. It leaves out some fields that Go programs write even if they are empty:
// metadata, divisors, and the resources of the main container.
const template = `
spec:
  nodeSelector: {zone: a}
  tolerations: [{key: gpu, operator: Exists}]
  securityContext: {fsGroup: 100}
  affinity:
    nodeAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, preference: {matchExpressions: [{key: gpu, operator: Exists}]}}
    podAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, podAffinityTerm: {topologyKey: rack}}
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}]
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - name: scratch
    ephemeral:
      volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
  - {name: labels, downwardAPI: {items: [{path: cpus, resourceFieldRef: {containerName: main, resource: limits.cpu}}]}}
  - {name: all, projected: {sources: [{downwardAPI: {items: [
      {path: cpus, resourceFieldRef: {containerName: main, resource: limits.cpu}}]}}]}}
  initContainers: [{name: fetch, image: fetch}]
  containers:
  - name: main
    image: training
    command: [train]
    env: [{name: CPUS, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]
    ports: [{name: metrics, containerPort: 80}]
    readinessProbe: {httpGet: {port: metrics}}
    lifecycle: {preStop: {sleep: {seconds: 1}}}
    volumeMounts: [{name: data, mountPath: /data}]
  - {name: sidecar, image: sidecar, resources: {limits: {cpu: 100m, memory: 1Gi}}}
`

// TypedClientSpecs defines specs for Go programs that read a job into its Go type, change it and write it back. The
// function patch returns a merge patch that sets the template of the job. The changes are valid for a running job.
func (c *Cluster[J]) TypedClientSpecs(patch func(template string) string, changes map[string]func(J)) {
	for name, change := range changes {
		It("can be updated by a typed client that changes "+name, func(ctx context.Context) {
			job := c.Create(ctx, c.NewNamespace(ctx), patch(string(asJSON(template))))
			c.runAll(ctx, job)
			Eventually(ctx, c.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
			suite.ExpectTypedUpdate(ctx, c.Client, job, change)
		})
	}
}
