//! What a process needs in its environment for its library to stay on its job's trees.
//!
//! With the preload library each pair of hosts has a tree of its own choosing, so the variables only keep the
//! library from leaving verbs (DevX, DC, other transports) and from spreading one connection over several
//! addresses. Without it (`one_tree`) the library's own variables choose one address for all peers of the process.

use std::path::Path;

use snin_fabric::TreeId;
use snin_fabric::job::{JobHost, JobTrees};

use super::settings::Settings;
use crate::cli::jobs::Library;

/// Name and value.
pub(super) type Variable = (&'static str, String);

/// All libraries.
const ALL: [Library; 5] =
    [Library::Ucx, Library::Openmpi, Library::Mpich, Library::Nccl, Library::Libfabric];

/// A process on a host of a job.
pub(super) struct Process<'a> {
    pub(super) settings: &'a Settings,
    pub(super) trees: &'a JobTrees,
    pub(super) host: &'a JobHost,
    /// Where the job's trees are on this node.
    pub(super) file: &'a Path,
    /// What LD_PRELOAD is already.
    pub(super) preloaded: Option<String>,
}

impl Process<'_> {
    /// The device, where one is configured.
    fn device(&self) -> Option<String> {
        let node = self.host.name.split_whitespace().next().unwrap_or_default();
        let number = node.trim_start_matches(|c: char| !c.is_ascii_digit());
        self.settings.device.as_ref().map(|name| name.replace("%n", number))
    }

    /// The variables for these libraries, all where none is named.
    ///
    /// # Errors
    /// When there is no one tree for all peers.
    pub(super) fn variables(
        &self,
        libraries: &[Library],
        one_tree: bool,
    ) -> Result<Vec<Variable>, String> {
        let libraries = if libraries.is_empty() { &ALL } else { libraries };
        let offset = if one_tree { Some(self.offset()?) } else { None };
        let mut variables = self.own(one_tree);
        for library in libraries {
            match library {
                Library::Ucx => self.ucx(&mut variables, offset),
                Library::Openmpi => {
                    variables.extend([
                        ("OMPI_MCA_pml", "ucx".to_owned()),
                        ("OMPI_MCA_btl", "^openib,ofi".to_owned()),
                        ("OMPI_MCA_osc", "^ucx".to_owned()),
                    ]);
                    self.openmpi_algorithms(&mut variables);
                }
                Library::Mpich => variables.push(("MPIR_CVAR_CH4_NETMOD", "ucx".to_owned())),
                Library::Nccl => self.nccl(&mut variables, offset),
                Library::Libfabric => self.libfabric(&mut variables, offset),
            }
        }
        Ok(variables)
    }

    fn own(&self, one_tree: bool) -> Vec<Variable> {
        let mut variables = vec![("SNIN_JOB", self.trees.owner().to_owned())];
        if one_tree {
            return variables;
        }
        let library = self.settings.preload.clone();
        let preload = match self.preloaded.as_deref().filter(|before| !before.is_empty()) {
            Some(before) if before.split([':', ' ']).any(|one| one == library) => before.to_owned(),
            Some(before) => format!("{library}:{before}"),
            None => library,
        };
        variables.push(("LD_PRELOAD", preload));
        variables.push(("SNIN_JOB_FILE", self.file.display().to_string()));
        variables.extend(self.settings.pairs.clone().map(|socket| ("SNIN_AGENT", socket)));
        variables.push(("SNIN_REQUIRE", u8::from(self.settings.require).to_string()));
        variables
    }

    /// What the address of a tree that all hosts share is more than the first one, the same for all.
    fn offset(&self) -> Result<u16, String> {
        let offset = |from: &JobHost, to: &JobHost, tree: TreeId| {
            let along = self.trees.along(from.leaf, to).get(&tree);
            along.map(|lid| lid.0 - to.lids.0.0)
        };
        let hosts = self.trees.hosts();
        let others = || hosts.iter().filter(|host| host.leaf != self.host.leaf);
        // Within a leaf every address leads there.
        let Some(first) = others().next() else { return Ok(0) };
        let fits = |&tree: &TreeId| {
            let own = offset(first, self.host, tree)?;
            let has = |host: &JobHost| self.trees.trees(host.leaf).contains(&tree);
            // The trees of the slice: those along which this host may send to each of the others and they to it.
            let all = others().all(|host| {
                let both = [offset(self.host, host, tree), offset(host, self.host, tree)];
                both == [Some(own); 2] && has(self.host) && has(host)
            });
            all.then_some(own)
        };
        let found = self.trees.along(first.leaf, self.host).keys().find_map(fits);
        found.ok_or_else(|| {
            format!(
                "job {} has no tree that {} shares with all its peers at one offset: use the preload library",
                self.trees.owner(),
                self.host.name
            )
        })
    }

    fn ucx(&self, variables: &mut Vec<Variable>, offset: Option<u16>) {
        let port = self.settings.device_port;
        variables.extend(self.device().map(|name| ("UCX_NET_DEVICES", format!("{name}:{port}"))));
        variables.extend([
            // DevX and DC reach the adapter without verbs' address vectors.
            ("UCX_TLS", "rc_verbs,ud_verbs,sm,self".to_owned()),
            ("UCX_IB_MLX5_DEVX", "n".to_owned()),
            ("UCX_IB_NUM_PATHS", "1".to_owned()),
            ("UCX_MAX_EAGER_RAILS", "1".to_owned()),
            ("UCX_MAX_RNDV_RAILS", "1".to_owned()),
        ]);
        match (self.settings.gid_index, offset) {
            (Some(base), offset) => {
                let index = u16::from(base) + offset.unwrap_or(0);
                variables.push(("UCX_IB_GID_INDEX", index.to_string()));
                variables.push(("UCX_IB_ROCE_REACHABILITY_MODE", "all".to_owned()));
            }
            (None, offset) => {
                variables.push(("UCX_IB_LID_PATH_BITS", offset.unwrap_or(0).to_string()));
            }
        }
    }

    fn nccl(&self, variables: &mut Vec<Variable>, offset: Option<u16>) {
        let port = self.settings.device_port;
        variables.extend(self.device().map(|name| ("NCCL_IB_HCA", format!("={name}:{port}"))));
        variables.extend([
            ("NCCL_IB_QPS_PER_CONNECTION", "1".to_owned()),
            ("NCCL_IB_ADAPTIVE_ROUTING", "0".to_owned()),
        ]);
        if let Some("ring" | "bidir") = self.pattern() {
            variables.push(("NCCL_ALGO", "Ring".to_owned()));
        }
        if let Some(base) = self.settings.gid_index {
            let index = u16::from(base) + offset.unwrap_or(0);
            variables.push(("NCCL_IB_GID_INDEX", index.to_string()));
        }
    }

    /// The algorithms of Open MPI's `coll/tuned` whose messages go as the job's pattern does, by their numbers
    /// there (`ompi_info --param coll tuned --level 9` of Open MPI 5.0).
    fn openmpi_algorithms(&self, variables: &mut Vec<Variable>) {
        let algorithms: &[Variable] = &match self.pattern() {
            // Ring.
            Some("ring" | "bidir") => [
                ("OMPI_MCA_coll_tuned_allreduce_algorithm", "4".to_owned()),
                ("OMPI_MCA_coll_tuned_allgather_algorithm", "4".to_owned()),
            ],
            // Rabenseifner's, which halves and doubles, and recursive doubling.
            Some("hd") => [
                ("OMPI_MCA_coll_tuned_allreduce_algorithm", "6".to_owned()),
                ("OMPI_MCA_coll_tuned_allgather_algorithm", "3".to_owned()),
            ],
            // Pairwise: in each step everybody sends to one and is sent to by one.
            Some("alltoall") => [
                ("OMPI_MCA_coll_tuned_alltoall_algorithm", "2".to_owned()),
                ("OMPI_MCA_coll_tuned_alltoallv_algorithm", "2".to_owned()),
            ],
            _ => return,
        };
        variables.push(("OMPI_MCA_coll_tuned_use_dynamic_rules", "1".to_owned()));
        variables.extend_from_slice(algorithms);
    }

    /// The job's pattern without its dimensions.
    fn pattern(&self) -> Option<&str> {
        self.trees.collective()?.split_whitespace().next()
    }

    fn libfabric(&self, variables: &mut Vec<Variable>, offset: Option<u16>) {
        variables.extend(self.device().map(|name| ("FI_VERBS_DEVICE_NAME", name)));
        variables.push(("FI_PROVIDER", "verbs;ofi_rxm".to_owned()));
        if let Some(base) = self.settings.gid_index {
            let index = u16::from(base) + offset.unwrap_or(0);
            variables.push(("FI_VERBS_GID_INDEX", index.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREES: &str = "snin-job 1\nowner slurm/7\nleaf 0x1 1,2\nleaf 0x2 2\n\
                         host 0x20 0x1 32-35 0=32,1=33,2=34,3=35 h0\n\
                         host 0x21 0x2 64-67 0=64,1=65,2=66,3=67 h1\n";

    fn variables(settings: &Settings, text: &str, one_tree: bool) -> Result<Vec<Variable>, String> {
        let trees: JobTrees = text.parse().unwrap();
        let file = Path::new("/run/snin/jobs/slurm,7.trees");
        let preloaded = Some("/lib/other.so".to_owned());
        let process = Process { settings, trees: &trees, host: &trees.hosts()[1], file, preloaded };
        process.variables(&[], one_tree)
    }

    fn value<'a>(variables: &'a [Variable], name: &str) -> Option<&'a str> {
        variables.iter().find(|(one, _)| *one == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn with_the_preload_library_libraries_stay_on_verbs() {
        let mut settings = Settings { device: Some("mlx5_%n".to_owned()), ..Settings::default() };
        let all = variables(&settings, TREES, false).unwrap();
        let preload = "/usr/local/lib/snin/libsnin_preload.so:/lib/other.so";
        assert_eq!(value(&all, "LD_PRELOAD"), Some(preload));
        assert_eq!(value(&all, "UCX_NET_DEVICES"), Some("mlx5_1:1"));
        assert_eq!(value(&all, "UCX_IB_LID_PATH_BITS"), Some("0"));
        assert_eq!(value(&all, "NCCL_IB_HCA"), Some("=mlx5_1:1"));
        assert_eq!(value(&all, "UCX_IB_GID_INDEX"), None);
        settings.gid_index = Some(1);
        let all = variables(&settings, TREES, false).unwrap();
        assert_eq!(value(&all, "UCX_IB_GID_INDEX"), Some("1"));
        assert_eq!(value(&all, "FI_VERBS_GID_INDEX"), Some("1"));
    }

    #[test]
    fn a_jobs_pattern_chooses_the_algorithm() {
        let chosen = |pattern: &str, name: &str| {
            let text = format!("{TREES}collective {pattern}\n");
            let all = variables(&Settings::default(), &text, false).unwrap();
            assert_eq!(value(&all, "OMPI_MCA_coll_tuned_use_dynamic_rules"), Some("1"));
            value(&all, name).map(str::to_owned)
        };
        let (reduce, all) =
            ("OMPI_MCA_coll_tuned_allreduce_algorithm", "OMPI_MCA_coll_tuned_alltoall_algorithm");
        assert_eq!(chosen("ring", reduce).as_deref(), Some("4"));
        assert_eq!(chosen("ring", "NCCL_ALGO").as_deref(), Some("Ring"));
        assert_eq!(chosen("hd", reduce).as_deref(), Some("6"));
        assert_eq!(chosen("alltoall", all).as_deref(), Some("2"));
        assert_eq!((chosen("alltoall", reduce), chosen("hd", "NCCL_ALGO")), (None, None));
        for text in [TREES.to_owned(), format!("{TREES}collective halo 2x1x1\n")] {
            let all = variables(&Settings::default(), &text, false).unwrap();
            assert!(all.iter().all(|(name, _)| !name.contains("coll_tuned")), "{text}");
        }
    }

    #[test]
    fn without_it_one_tree_of_the_slice_is_for_all_peers() {
        let settings = Settings::default();
        let all = variables(&settings, TREES, true).unwrap();
        assert_eq!(value(&all, "UCX_IB_LID_PATH_BITS"), Some("2"));
        assert_eq!(value(&all, "LD_PRELOAD"), None);
        let why = variables(&settings, &TREES.replace("0x2 2\n", "0x2 3\n"), true).unwrap_err();
        assert!(why.starts_with("job slurm/7 has no tree that h1 shares with all"), "{why}");
    }
}
