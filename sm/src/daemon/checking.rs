//! Whether a configuration, and the files that it names, can be used: nothing is opened to be written, and no
//! port.

use std::path::PathBuf;

use snin_daemon::settings::Loaded;
use snin_daemon::{group, log};

use super::failure::Failure;
use super::settings::{Settings, objection};
use super::{partition_file, views};

/// The files that were read besides the configuration.
///
/// # Errors
/// The first that is wrong, by file, line and value.
pub fn check(loaded: &Loaded<Settings>) -> Result<Vec<PathBuf>, Failure> {
    let settings = &loaded.value;
    group::configured(loaded, settings.socket_group.as_ref())?;
    log::level(&settings.log_level)?;
    let mut config = settings.core(0);
    config.partitions = partition_file::read(settings.partition_config_file.as_deref())?;
    config.qos_policy = partition_file::qos_policy(settings.qos_policy_file.as_deref())?;
    config.lfts = partition_file::lfts(loaded)?;
    config.roots = partition_file::roots(settings.root_guid_file.as_deref())?;
    config.check().map_err(|error| objection(loaded, &error))?;
    let certificates = views::files(settings)?;
    views::identity(settings)?;
    let certificates =
        certificates.map(|files| [files.certificate, files.key, files.ca_certificate]);
    let Settings { partition_config_file, qos_policy_file, root_guid_file, lfts_file, .. } =
        settings;
    let named = [partition_config_file, qos_policy_file, root_guid_file, lfts_file];
    let named = named.into_iter().flatten().cloned();
    Ok(named.chain(certificates.into_iter().flatten()).collect())
}
