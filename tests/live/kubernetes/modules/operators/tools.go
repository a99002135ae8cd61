//go:build tools

package tools

import (
	_ "github.com/kubeflow/mpi-operator/cmd/mpi-operator"
	_ "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"
	_ "helm.sh/helm/v3/cmd/helm"
)
